//! What is asked about the plan of one statement, of real servers: each part is answered, or says which GRANT it wants.
#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

use std::time::Duration;

use jiff::Timestamp;
use mysql_async::prelude::Queryable;
use spindoctor_collect::mysql::{Endpoint, Limits, Target};
use spindoctor_collect::plan_now;
use spindoctor_lab::{Server, Which};
use spindoctor_model::plan_now::{PlanNow, Suspect, TableName};
use spindoctor_model::{Reading, Window};

use super::set_up;

/// Longer than a busy machine takes for anything here.
const PATIENCE: Duration = Duration::from_secs(60);

/// It scans 4,096 rows, so that it is at work in most looks.
const STATEMENT: &str = "SELECT MAX(c) FROM orders WHERE k = 47110815";

/// A server with a table whose index the optimizer may not use, and its statement.
async fn server(which: Which) -> Server {
    let server = set_up::server(which, &[]).await;
    let hidden = if server.version().is_mariadb() { "IGNORED" } else { "INVISIBLE" };
    let hide = format!("ALTER TABLE shop.orders ALTER INDEX by_k {hidden}");
    let doubled = "INSERT INTO shop.orders (k, c) SELECT k, c FROM shop.orders";
    let mut statements = vec![
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT AUTO_INCREMENT PRIMARY KEY, k INT, c CHAR(100), KEY by_k (k)) ENGINE = InnoDB",
        "INSERT INTO shop.orders (k, c) VALUES (47110815, 'secret')",
    ];
    statements.extend([doubled; 12]);
    statements.extend(["ANALYZE TABLE shop.orders", hide.as_str()]);
    server.execute(statements).await.unwrap();
    server
}

async fn asked(server: &Server, user: &str, digest: &str) -> (PlanNow, Window) {
    let mut target = Target::new(Endpoint::Socket(server.socket().to_owned()), user);
    target.limits = Limits { connect: PATIENCE, query: PATIENCE };
    let suspect = Suspect {
        schema: "shop".into(),
        digest: digest.into(),
        text: "SELECT MAX ( `c` ) FROM `orders` WHERE `k` = ?".into(),
        table: Some(TableName { schema: "shop".into(), name: "orders".into() }),
    };
    let mut window = Window { start: Timestamp::now(), ..Window::default() };
    plan_now::read(&target, &suspect, &mut window).await;
    (window.plan_now.value().unwrap().clone(), window)
}

fn check(plan: &PlanNow, window: &Window) {
    assert_eq!(plan.failures().map(|(part, why)| format!("{part}: {why:?}")).collect::<Vec<_>>(), [""; 0]);
    let line = &plan.explained.value().unwrap()[0];
    assert_eq!((line.table.as_str(), line.access.as_str(), line.key.as_deref()), ("orders", "ALL", None));
    assert!(line.rows.is_some_and(|rows| rows > 1_000.0), "{line:?}");
    let indexes = plan.indexes.value().unwrap();
    let by_k = indexes.iter().find(|index| index.name == "by_k").unwrap();
    assert!(by_k.is_hidden && by_k.columns == ["k"] && by_k.cardinality.is_some(), "{indexes:?}");
    assert!(indexes.iter().any(|index| index.name == "PRIMARY" && !index.is_hidden), "{indexes:?}");
    let statistics = plan.statistics.value().unwrap();
    assert!(statistics.rows.is_some_and(|rows| rows > 1_000) && statistics.age_s < 3_600.0, "{statistics:?}");
    assert!(window.cost.server_queries > 5 && window.cost.server_busy_ms > 0.0, "{:?}", window.cost);
    let whole = serde_json::to_string(window).unwrap();
    assert!(!whole.contains("47110815") && !whole.contains("secret"), "{whole}");
}

/// As the user asks it who has no right, and then has what the answers say.
async fn grants_unlock(server: &Server) {
    server.execute(["CREATE USER nobody@localhost"]).await.unwrap();
    let (plan, _) = asked(server, "nobody", "").await;
    let mut grants = Vec::new();
    for reading in [plan.indexes.unavailable(), plan.statistics.unavailable()] {
        let unlock = reading.unwrap().unlock.clone().unwrap();
        grants.extend(unlock.split("; ").map(str::to_owned));
    }
    assert!(
        grants.contains(&"GRANT SELECT ON `shop`.`orders` TO 'nobody'@'localhost'".to_owned()),
        "{grants:?}"
    );
    let because = &plan.explained.unavailable().unwrap().because;
    assert!(because.contains("GRANT PROCESS ON *.* TO 'nobody'@'localhost'"), "{because}");
    grants.push("GRANT PROCESS ON *.* TO 'nobody'@'localhost'".to_owned());
    server.execute(grants).await.unwrap();
    let (plan, window) = asked(server, "nobody", "").await;
    check(&plan, &window);
}

async fn of_a_statement_that_runs(which: Which) {
    let server = server(which).await;
    let mut session = server.connect().await.unwrap();
    session.query_drop("USE shop").await.unwrap();
    let runs = tokio::spawn(async move { while session.query_drop(STATEMENT).await.is_ok() {} });
    let (plan, window) = asked(&server, "root", "").await;
    check(&plan, &window);
    grants_unlock(&server).await;
    runs.abort();
    server.stop().unwrap();
}

#[tokio::test]
async fn the_plan_of_a_statement_that_runs_is_read_from_mysql() {
    of_a_statement_that_runs(Which::Mysql).await;
}

#[tokio::test]
async fn the_plan_of_a_statement_that_runs_is_read_from_mariadb() {
    of_a_statement_that_runs(Which::Mariadb).await;
}

#[tokio::test]
async fn a_text_that_mysql_kept_is_explained_where_the_statement_does_not_run() {
    let server = server(Which::Mysql).await;
    let mut session = server.connect().await.unwrap();
    session.query_drop("USE shop").await.unwrap();
    session.query_drop(STATEMENT).await.unwrap();
    let digest = "SELECT DIGEST FROM performance_schema.events_statements_summary_by_digest \
                  WHERE SCHEMA_NAME = 'shop' AND DIGEST_TEXT LIKE 'SELECT MAX%'";
    let digest = server.ask(digest).await.unwrap().unwrap();
    let (plan, window) = asked(&server, "root", &digest).await;
    check(&plan, &window);
    // Where nobody has a text, the rest is read all the same.
    let (plan, _) = asked(&server, "root", "unknown").await;
    assert!(
        matches!(&plan.explained, Reading::Unavailable(why) if why.because.contains("no whole text")),
        "{plan:?}"
    );
    assert!(plan.indexes.value().is_some() && plan.statistics.value().is_some(), "{plan:?}");
    server.stop().unwrap();
}
