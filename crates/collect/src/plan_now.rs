//! The plan of one statement as it is now, with the indexes and the statistics that the optimizer chose it from.
//!
//! In: a target and the statement that a rule suspects. Out: a [`PlanNow`], of which each part is answered or says why not. A session
//! of its own asks, which only reads; a text is explained only where [`Select`] finds it harmless, and none is kept. All in all it
//! takes no longer than one query may.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use spindoctor_model::plan_now::{TableName, TableStatistics};
use spindoctor_model::{PlanNow, Reading, Suspect, Unavailable, Window};
use spindoctor_sql::{Select, comparable, digest, error_without_values, kind};
use tokio::time::timeout;

use crate::dives::{Dives, Index, NotExplained, PlanLine, Running, quoted};
use crate::mysql::{QueryError, SessionCost, Target};
use crate::source::Answer;

/// Looks at what runs, before the server is asked for a text that it kept, and where it kept none.
const LOOKS: u32 = 3;
const MORE_LOOKS: u32 = 7;
/// Between two of them.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// Tables of a statement whose plan is kept.
const MOST_LINES: usize = 20;
/// InnoDB has no table with more indexes (MySQL Reference Manual, InnoDB Limits).
const MOST_INDEXES: usize = 65;
/// How long a goodbye may take.
const GOODBYE_WITHIN: Duration = Duration::from_millis(200);

/// Asks about a statement, and keeps what was answered in the window, with what it cost.
pub async fn read(target: &Target, suspect: &Suspect, window: &mut Window) {
    let clock = Clock {
        origin_s: Timestamp::now().duration_since(window.start).as_secs_f64(),
        begun: Instant::now(),
    };
    let (reading, cost) = ask(target, suspect, clock).await;
    window.plan_now = reading;
    window.cost.server_queries += cost.queries;
    window.cost.server_busy_ms += cost.busy_ms;
}

async fn ask(target: &Target, suspect: &Suspect, clock: Clock) -> (Reading<PlanNow>, SessionCost) {
    let (within, mut target) = (target.limits.query, target.clone());
    target.limits.connect = target.limits.connect.min(within);
    let mut dives = match Dives::connect(&target, None).await {
        Ok(dives) => dives,
        Err(why) => {
            return (Reading::Unavailable(Unavailable::because(why.to_string())), SessionCost::default());
        }
    };
    let mut plan = suspect.unknown();
    let asked = timeout(within, gather(&mut dives, suspect, clock, &mut plan)).await;
    match asked {
        Ok(Ok(())) => {}
        Ok(Err(why)) => plan.fail(&Unavailable::because(why.to_string())),
        Err(_) => plan.fail(&Unavailable::because(format!(
            "the server was asked about the plan for {} s, and that is all",
            within.as_secs_f64()
        ))),
    }
    let cost = dives.session().cost();
    // A server that hangs gets no goodbye.
    drop(timeout(GOODBYE_WITHIN, dives.close()).await);
    (clock.answered(clock.begun).reading(plan), cost)
}

/// What the times of the answers count from.
#[derive(Clone, Copy)]
struct Clock {
    /// Seconds from the start of the window to the beginning of the questions.
    origin_s: f64,
    begun: Instant,
}

impl Clock {
    /// An answer that was asked for at an instant, and that is there now.
    fn answered(self, asked: Instant) -> Answer {
        Answer {
            at_s: self.origin_s + self.begun.elapsed().as_secs_f64(),
            took_ms: asked.elapsed().as_secs_f64() * 1e3,
        }
    }
}

/// Why there is no answer: the session broke, or something that others do not suffer from.
enum Failed {
    Broken(QueryError),
    Because(Unavailable),
}

impl From<QueryError> for Failed {
    fn from(error: QueryError) -> Self {
        match error.breaks_session() {
            true => Self::Broken(error),
            // A server quotes what it does not understand.
            false => Self::Because(Unavailable::because(error_without_values(&error.to_string()))),
        }
    }
}

/// Asks for each part in turn. An error where nothing more can be asked.
async fn gather(
    dives: &mut Dives,
    suspect: &Suspect,
    clock: Clock,
    plan: &mut PlanNow,
) -> Result<(), QueryError> {
    let asked = Instant::now();
    let explained = explain(dives, suspect, &mut plan.table).await;
    plan.explained = kept(explained, clock, asked)?;
    if plan.table.schema.is_empty() || plan.table.name.is_empty() {
        plan.fail(&Unavailable::because("the statement does not say which table it reads first"));
        return Ok(());
    }
    let asked = Instant::now();
    let is_seen = plan.explained.value().is_some();
    let indexes = list_indexes(dives, &plan.table, is_seen).await;
    plan.indexes = kept(indexes, clock, asked)?;
    let asked = Instant::now();
    let statistics = read_statistics(dives, &plan.table).await;
    plan.statistics = kept(statistics, clock, asked)?;
    Ok(())
}

fn kept<T>(answer: Result<T, Failed>, clock: Clock, asked: Instant) -> Result<Reading<T>, QueryError> {
    match answer {
        Ok(value) => Ok(clock.answered(asked).reading(value)),
        Err(Failed::Because(why)) => Ok(Reading::Unavailable(why)),
        Err(Failed::Broken(why)) => Err(why),
    }
}

/// EXPLAIN of a text of the statement. `table` becomes the one of which most rows are read.
async fn explain(
    dives: &mut Dives,
    suspect: &Suspect,
    table: &mut TableName,
) -> Result<Vec<PlanLine>, Failed> {
    let (schema, select) = text(dives, suspect).await?;
    let tables = match dives.ready_to_explain(&schema, &select).await? {
        Ok(tables) => tables,
        Err(why) => return Err(not_explained(dives, why, table).await),
    };
    let mut lines = match dives.explain_once(&select.text).await {
        Ok((_, lines)) => lines,
        Err(why @ QueryError::Denied { .. }) => {
            let mut grants = Vec::new();
            for table in &tables {
                grants.push(select_grant(dives, table).await);
            }
            let why = Unavailable::because(error_without_values(&why.to_string()));
            return Err(Failed::Because(why.unlock(grants.join("; "))));
        }
        Err(why) => return Err(why.into()),
    };
    lines.truncate(MOST_LINES);
    let most =
        lines.iter().max_by(|one, other| one.rows.unwrap_or(0.0).total_cmp(&other.rows.unwrap_or(0.0)));
    let named = most.and_then(|most| select.tables.iter().position(|table| table.called() == most.table));
    if let Some(most) = named.and_then(|at| tables.into_iter().nth(at)) {
        *table = most;
    }
    Ok(lines)
}

/// Why a statement is not explained: of a table that is not seen with the GRANT.
async fn not_explained(dives: &mut Dives, why: NotExplained, table: &TableName) -> Failed {
    let because = Unavailable::because(why.to_string());
    let is_named = !table.schema.is_empty() && !table.name.is_empty();
    Failed::Because(match why {
        NotExplained::NotSeen if is_named => because.unlock(select_grant(dives, table).await),
        NotExplained::NotSeen | NotExplained::NoTable => because,
    })
}

async fn select_grant(dives: &mut Dives, table: &TableName) -> String {
    let grantee = dives.grantee().await;
    format!("GRANT SELECT ON {}.{} TO {grantee}", quoted(&table.schema), quoted(&table.name))
}

/// A text of the statement that may be explained, with its database: one that runs now, or that the server kept. What runs comes
/// first: it is asked for now, and a text that was kept may be of a minute ago.
async fn text(dives: &mut Dives, suspect: &Suspect) -> Result<(String, Select), Failed> {
    const NO_TEXT: &str = "the server keeps no whole text of it, and it did not run just now";
    if kind(&suspect.text) != "SELECT" {
        return Err(Failed::Because(Unavailable::because("only a SELECT is explained")));
    }
    let mut why_not = None;
    if let Some(runs) = running(dives, suspect, LOOKS, &mut why_not).await? {
        return Ok(runs);
    }
    let sample = dives.sample_text(&suspect.schema, &suspect.digest).await?;
    if let Some(kept) = sample.and_then(|sample| parsed(sample, &mut why_not)) {
        return Ok(kept);
    }
    if let Some(runs) = running(dives, suspect, MORE_LOOKS, &mut why_not).await? {
        return Ok(runs);
    }
    let because = why_not.unwrap_or_else(|| NO_TEXT.to_owned());
    Err(Failed::Because(Unavailable::because(because)))
}

/// A text of it that runs in one of so many looks.
async fn running(
    dives: &mut Dives,
    suspect: &Suspect,
    looks: u32,
    why_not: &mut Option<String>,
) -> Result<Option<(String, Select)>, Failed> {
    for _ in 0..looks {
        let running = match dives.running().await {
            Ok(running) => running,
            Err(why) if why.breaks_session() => return Err(why.into()),
            Err(why) => {
                // It names the GRANT, and nothing of any statement.
                *why_not = Some(why.to_string());
                return Ok(None);
            }
        };
        let mut same = running.into_iter().filter(|running| is_same(running, suspect));
        if let Some(select) = same.find_map(|running| parsed(running, why_not)) {
            return Ok(Some(select));
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    Ok(None)
}

fn parsed(running: Running, why_not: &mut Option<String>) -> Option<(String, Select)> {
    match Select::parse(&running.text) {
        Ok(select) => Some((running.schema, select)),
        Err(why) => {
            *why_not = Some(why);
            None
        }
    }
}

/// True for a statement that the server counts as the suspect.
fn is_same(running: &Running, suspect: &Suspect) -> bool {
    // Of prepared statements the summary does not say which database they ran in (before MySQL 9).
    let is_there = suspect.schema.is_empty() || running.schema.eq_ignore_ascii_case(&suspect.schema);
    is_there && comparable(&digest(&running.text)) == comparable(&suspect.text)
}

async fn list_indexes(dives: &mut Dives, table: &TableName, is_seen: bool) -> Result<Vec<Index>, Failed> {
    dives.show_statistics_as_they_are().await?;
    let mut indexes = dives.indexes(table).await?;
    if indexes.is_empty() && !is_seen {
        let grant = select_grant(dives, table).await;
        let why = "no index is seen: the table has none, is not there, or this account does not see it";
        return Err(Failed::Because(Unavailable::because(why).unlock(grant)));
    }
    indexes.truncate(MOST_INDEXES);
    Ok(indexes)
}

async fn read_statistics(dives: &mut Dives, table: &TableName) -> Result<TableStatistics, Failed> {
    match dives.table_statistics(table).await {
        Ok(Some(statistics)) => Ok(statistics),
        Ok(None) => Err(Failed::Because(Unavailable::because(
            "the table has no persistent statistics, and of others the server does not say how old they are",
        ))),
        Err(why @ QueryError::Denied { .. }) => {
            let grantee = dives.grantee().await;
            let why = Unavailable::because(error_without_values(&why.to_string()));
            Err(Failed::Because(why.unlock(format!(
                "GRANT SELECT ON mysql.innodb_table_stats TO {grantee}; \
                 GRANT SELECT ON mysql.innodb_index_stats TO {grantee}"
            ))))
        }
        Err(why) => Err(why.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_statement_is_the_suspect_whatever_its_values_and_its_blanks() {
        let suspect = Suspect {
            schema: "shop".into(),
            text: "SELECT `c` FROM `orders` WHERE `k` IN (...)".into(),
            ..Suspect::default()
        };
        let of = |schema: &str, text: &str| {
            let running = Running { schema: schema.into(), text: text.into(), ..Running::default() };
            is_same(&running, &suspect)
        };
        assert!(of("Shop", "select c from orders where k in (7, 8, 9)"));
        assert!(!of("store", "select c from orders where k in (7, 8, 9)"));
        assert!(!of("shop", "select c from orders where id in (7, 8, 9)"));
    }

    #[test]
    fn what_the_server_says_of_a_statement_shows_no_value_of_it() {
        let error = QueryError::Server { code: 1064, message: "near 'secret' at line 1".into() };
        let Failed::Because(why) = Failed::from(error) else { panic!("the session lives on") };
        assert!(why.because.contains("1064") && !why.because.contains("secret"), "{why:?}");
        assert!(matches!(Failed::from(QueryError::Broken), Failed::Broken(_)));
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_a_reason_and_no_error() {
        use crate::mysql::Endpoint;
        let target = Target::new(Endpoint::Socket("/nonexistent/mysqld.sock".into()), "app");
        let mut window = Window::default();
        read(&target, &Suspect::default(), &mut window).await;
        let why = window.plan_now.unavailable().map(|why| why.because.as_str());
        assert!(why.is_some_and(|why| why.contains("/nonexistent/mysqld.sock")), "{why:?}");
    }
}
