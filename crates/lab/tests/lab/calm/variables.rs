//! The list of variables that trials may change, held against real servers: each exists, is dynamic, and takes its
//! documented range to both ends.
#![expect(clippy::unwrap_used, reason = "what tests share stands outside of #[test] functions")]

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use spindoctor_lab::Which;
use spindoctor_model::ServerVersion;
use spindoctor_tune::variables::{VARIABLES, Values, Variable};

use super::set_up::server;

/// At their largest these take memory or disk, or wait until another has been raised.
const NOT_RAISED: &[&str] =
    &["innodb_redo_log_capacity", "innodb_log_file_size", "table_open_cache", "innodb_io_capacity"];

/// At its smallest this is below another, and is raised to that.
const NOT_LOWERED: &[&str] = &["innodb_io_capacity_max"];

/// Whether this takes both values depends on the file system that the server's files are on: what it has is set again, and no more.
const NOT_EVERYWHERE: &[&str] = &["innodb_log_file_buffering"];

async fn value(session: &mut Conn, name: &str) -> Option<String> {
    let row: Option<(String, String)> =
        session.query_first(format!("SHOW GLOBAL VARIABLES LIKE '{name}'")).await.unwrap();
    row.map(|(_, value)| value)
}

async fn set(session: &mut Conn, name: &str, value: &str) -> Result<(), mysql_async::Error> {
    session.query_drop(format!("SET GLOBAL {name} = {value}")).await
}

/// What is wrong with an entry of the list on this server; none where all is right.
async fn wrong(session: &mut Conn, variable: &Variable, version: ServerVersion) -> Option<String> {
    let name = variable.name;
    let is_listed = (variable.is_dynamic_on)(version);
    let Some(before) = value(session, name).await else {
        return is_listed.then(|| format!("{name}: there is no such variable"));
    };
    if let Err(error) = set(session, name, &before).await {
        return is_listed.then(|| format!("{name}: {error}"));
    }
    if !is_listed {
        return Some(format!("{name} is dynamic, and the list says it is not"));
    }
    if variable.value(version, &before).as_deref() != Ok(before.as_str()) {
        return Some(format!("{name}: the list refuses {before:?}, which the server has"));
    }
    let mut found = None;
    for bound in bounds(variable, version) {
        let answer = set(session, name, &bound).await;
        let now = value(session, name).await.unwrap();
        if answer.is_err() || now != bound {
            found = Some(format!("{name} = {bound}: the server made {now} of it: {answer:?}"));
        }
    }
    set(session, name, &before).await.unwrap();
    found
}

/// Bounds that can be tried.
fn bounds(variable: &Variable, version: ServerVersion) -> Vec<String> {
    match variable.values_on(version) {
        Values::Switch if NOT_EVERYWHERE.contains(&variable.name) => Vec::new(),
        Values::Switch => ["ON", "OFF"].map(str::to_owned).into(),
        Values::Numbers { from, to } => {
            let least = (!NOT_LOWERED.contains(&variable.name)).then(|| from.to_string());
            let most = (!NOT_RAISED.contains(&variable.name)).then(|| to.to_string());
            least.into_iter().chain(most).collect()
        }
    }
}

async fn the_list_is_right(which: Which) {
    let server = server(which, &[]).await;
    let options = OptsBuilder::default().socket(Some(server.socket().to_string_lossy())).user(Some("root"));
    let mut session = Conn::new(options).await.unwrap();
    let (text, comment): (String, String) =
        session.query_first("SELECT @@version, @@version_comment").await.unwrap().unwrap();
    let version = ServerVersion::parse(&text, &comment).unwrap();
    let mut all = Vec::new();
    for variable in VARIABLES {
        all.extend(wrong(&mut session, variable, version).await);
    }
    session.disconnect().await.unwrap();
    server.stop().unwrap();
    assert!(all.is_empty(), "{version}: {all:#?}");
}

#[tokio::test]
async fn mysql_takes_what_the_list_says() {
    the_list_is_right(Which::Mysql).await;
}

#[tokio::test]
async fn mariadb_takes_what_the_list_says() {
    the_list_is_right(Which::Mariadb).await;
}
