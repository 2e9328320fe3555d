//! What the server says of a recording's statements, where one is named: plans, definitions of their tables, InnoDB's status.
//!
//! It reads and changes nothing: the session is that of `indexes`, and only a statement that [`Select`] finds harmless is
//! explained. How many are asked about, and for how long, is bounded.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::time::Duration;

use spindoctor_collect::dives::{Dives, Running};
use spindoctor_collect::mysql::{QueryError, Target, innodb_status};
use spindoctor_model::{Reading, Sample};
use spindoctor_page::safe::safe;
use spindoctor_record::literals::Literals;
use spindoctor_sql::{Select, definition_without_literals, digest, error_without_values, first_table, kind};

use super::statements::{Statement, key};
use super::texts::Pack;

/// The server is asked for so long, all in all.
const WITHIN: Duration = Duration::from_secs(20);
/// Statements that are explained.
const MOST_PLANS: usize = 20;
/// Tables whose definitions are shown.
const MOST_TABLES: usize = 40;
/// Statements that the server keeps a text of, and that are looked through.
const MOST_KEPT: usize = 300;
/// Looks at what runs now, for texts of what a server keeps none of.
const LOOKS: u32 = 10;
/// Between two of them.
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);
/// How long a goodbye may take.
const GOODBYE_WITHIN: Duration = Duration::from_millis(200);
/// Databases whose tables are the server's own.
const OF_THE_SERVER: [&str; 4] = ["mysql", "information_schema", "performance_schema", "sys"];

/// What is wanted of the server.
pub struct Wanted<'a> {
    /// The recording's statements, the costliest first.
    pub statements: &'a [Statement],
    /// How long ago the part began: what did not run since then is of no use.
    pub since: Duration,
    /// True where literals may be shown.
    pub literals: bool,
    /// The server of the recording, as it says it is.
    pub recorded: &'a str,
}

/// Asks, and adds what was answered. What was not is left out with the reason: a bundle without it is a bundle.
pub async fn ask(target: &Target, wanted: &Wanted<'_>, pack: &mut Pack) {
    let mut dives = match Dives::connect(target, None).await {
        Ok(dives) => dives,
        Err(why) => return pack.leave_out(WHAT, &why.to_string()),
    };
    let (is, was) = (dives.session().hostname().to_owned(), wanted.recorded);
    if is != was {
        pack.note(format!(
            "plans, definitions and InnoDB's status are of {}, and the recording is of {}",
            safe(&format!("{is} ({})", target.address())),
            safe(was)
        ));
    }
    let mut answers = Answers::default();
    let asked = tokio::time::timeout(WITHIN, answers.gather(&mut dives, wanted)).await;
    let stopped = match asked {
        Ok(Ok(())) => None,
        Ok(Err(why)) => Some(why.to_string()),
        Err(_) => Some(format!("the server was asked for {} s, and that is all", WITHIN.as_secs())),
    };
    answers.put_into(pack, wanted.literals, stopped.as_deref());
    // A server that hangs gets no goodbye.
    drop(tokio::time::timeout(GOODBYE_WITHIN, dives.close()).await);
}

/// What a server is asked for.
pub const WHAT: &str = "plans, definitions of tables, InnoDB's status";

/// What was answered so far.
#[derive(Default)]
struct Answers {
    status: Option<Result<String, String>>,
    plans: String,
    plan_count: usize,
    definitions: String,
    definition_count: usize,
}

impl Answers {
    async fn gather(&mut self, dives: &mut Dives, wanted: &Wanted<'_>) -> Result<(), QueryError> {
        let status = dives.innodb_status().await;
        self.status = Some(unless_broken(dives, status)?);
        let texts = texts(dives, wanted).await?;
        let mut tables = Vec::new();
        for statement in wanted.statements {
            let plan = match texts.get(&key(&statement.schema, &statement.shape)) {
                _ if kind(&statement.shape) != "SELECT" => Err("only a SELECT is explained".to_owned()),
                None => Err("the server keeps no whole text of it that could be explained".to_owned()),
                Some(_) if self.plan_count >= MOST_PLANS => {
                    Err(format!("only {MOST_PLANS} statements are explained"))
                }
                Some(text) => explain(dives, text, &mut tables).await?.map(|plan| (plan, text)),
            };
            if let Some(table) = first_table(&statement.shape).filter(|_| !statement.schema.is_empty()) {
                tables.push((statement.schema.clone(), table));
            }
            let shown = match &plan {
                Ok((_, text)) if wanted.literals => &text.text,
                _ => &statement.shape,
            };
            let schema = if statement.schema.is_empty() { "no database" } else { &statement.schema };
            let _ = writeln!(self.plans, "{}\n  in {}", safe(shown), safe(schema));
            let _ = match plan {
                Ok((plan, _)) => {
                    self.plan_count += 1;
                    writeln!(self.plans, "{}", cells(&plan))
                }
                // A server's error quotes what it does not understand.
                Err(why) if !wanted.literals => {
                    writeln!(self.plans, "  no plan: {}\n", safe(&error_without_values(&why)))
                }
                Err(why) => writeln!(self.plans, "  no plan: {}\n", safe(&why)),
            };
        }
        self.define(dives, tables, wanted.literals).await
    }

    async fn define(
        &mut self,
        dives: &mut Dives,
        tables: Vec<(String, String)>,
        literals: bool,
    ) -> Result<(), QueryError> {
        let mut done = BTreeSet::new();
        for (schema, table) in tables {
            let is_servers = OF_THE_SERVER.iter().any(|own| schema.eq_ignore_ascii_case(own));
            if is_servers || done.len() >= MOST_TABLES || !done.insert((schema.clone(), table.clone())) {
                continue;
            }
            let defined = dives.definition(&schema, &table).await;
            let shown = match unless_broken(dives, defined)? {
                Ok(text) if !text.starts_with("CREATE TABLE") => Err("it is not a table".to_owned()),
                Ok(text) if literals => Ok(text),
                Ok(text) => definition_without_literals(&text)
                    .ok_or_else(|| "its literals cannot be taken out for certain".to_owned()),
                Err(why) => Err(why),
            };
            let _ = writeln!(self.definitions, "-- {}.{}", safe(&schema), safe(&table));
            let _ = match shown {
                Ok(text) => {
                    self.definition_count += 1;
                    writeln!(self.definitions, "{};\n", lines(&text))
                }
                Err(why) => writeln!(self.definitions, "-- not shown: {}\n", safe(&why)),
            };
        }
        Ok(())
    }

    fn put_into(self, pack: &mut Pack, literals: bool, stopped: Option<&str>) {
        let not_asked = stopped.unwrap_or("the server was not asked");
        match self.status {
            Some(Ok(text)) if literals => {
                pack.add("server/innodb-status.txt", "SHOW ENGINE INNODB STATUS", lines(&text));
            }
            Some(Ok(text)) => pack.add(
                "server/innodb-status.json",
                "SHOW ENGINE INNODB STATUS, its numbers without its statements",
                status_without_literals(&text),
            ),
            Some(Err(why)) => pack.leave_out("InnoDB's status", &why),
            None => pack.leave_out("InnoDB's status", not_asked),
        }
        if self.plans.is_empty() {
            pack.leave_out("plans", stopped.unwrap_or("the recording has no statement here"));
        } else {
            pack.add("server/plans.txt", "EXPLAIN of the statements, the costliest first", self.plans);
        }
        if self.definition_count == 0 {
            let why = stopped.unwrap_or("no table of the statements could be shown");
            pack.leave_out("definitions of tables", why);
        } else {
            let about = "SHOW CREATE TABLE of the statements' tables";
            pack.add("server/tables.sql", about, self.definitions);
        }
        if let Some(why) = stopped {
            pack.note(format!("not all plans and definitions are here: {}", safe(why)));
        }
    }
}

/// An answer, or why there is none; an error where nothing more can be asked.
fn unless_broken<T>(dives: &Dives, answer: Result<T, QueryError>) -> Result<Result<T, String>, QueryError> {
    match answer {
        Err(why) if dives.session().is_broken() => Err(why),
        answer => Ok(answer.map_err(|why| why.to_string())),
    }
}

/// Whole texts of the recording's SELECTs: its own where it has them, else what the server keeps of them, or runs now.
async fn texts(
    dives: &mut Dives,
    wanted: &Wanted<'_>,
) -> Result<HashMap<(String, String), Running>, QueryError> {
    let mut missing: BTreeSet<(String, String)> = BTreeSet::new();
    let mut texts = HashMap::new();
    for statement in wanted.statements.iter().filter(|one| kind(&one.shape) == "SELECT") {
        let key = key(&statement.schema, &statement.shape);
        match &statement.full {
            Some(text) => {
                let (schema, text) = (statement.schema.clone(), text.clone());
                texts.insert(key, Running { schema, text, ..Running::default() });
            }
            None => {
                missing.insert(key);
            }
        }
    }
    let mut take = |found: Vec<Running>, missing: &mut BTreeSet<(String, String)>| {
        for one in found {
            let key = key(&one.schema, &digest(&one.text));
            if missing.remove(&key) {
                texts.insert(key, one);
            }
        }
    };
    if !missing.is_empty() {
        let kept = dives.costliest(wanted.since, MOST_KEPT).await?;
        take(kept, &mut missing);
    }
    for _ in 0..LOOKS {
        if missing.is_empty() {
            break;
        }
        let running = dives.running().await;
        match unless_broken(dives, running)? {
            Ok(running) => take(running, &mut missing),
            // The account may not see what others run.
            Err(_) => break,
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
    Ok(texts)
}

/// The plan of a text; why there is none.
async fn explain(
    dives: &mut Dives,
    running: &Running,
    tables: &mut Vec<(String, String)>,
) -> Result<Result<String, String>, QueryError> {
    let select = match Select::parse(&running.text) {
        Ok(select) => select,
        Err(because) => return Ok(Err(because)),
    };
    let ready = dives.ready_to_explain(&running.schema, &select).await;
    match unless_broken(dives, ready)? {
        Ok(Ok(its_tables)) => tables.extend(its_tables.into_iter().map(|table| (table.schema, table.name))),
        Ok(Err(why)) => return Ok(Err(why.to_string())),
        Err(why) => return Ok(Err(why)),
    }
    let plan = dives.plan_text(&select.text).await;
    unless_broken(dives, plan)
}

/// InnoDB's status as a recording has it: what it printed of statements and rows is gone.
fn status_without_literals(text: &str) -> String {
    let mut sample = Sample::default();
    let value = innodb_status::parse(text);
    sample.server.innodb_status = Reading::Available { at_s: 0.0, took_ms: 0.0, value };
    Literals::default().take_out_of_sample(&mut sample);
    let status = sample.server.innodb_status.value();
    serde_json::to_string_pretty(&status).unwrap_or_default() + "\n"
}

/// A text of lines in which nothing steers a terminal.
fn lines(text: &str) -> String {
    text.lines().map(safe).collect::<Vec<_>>().join("\n")
}

/// The same of lines of cells with tabs between.
fn cells(text: &str) -> String {
    let line = |line: &str| line.split('\t').map(safe).collect::<Vec<_>>().join("\t") + "\n";
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innodbs_status_has_its_numbers_and_no_statement() {
        // MySQL 8.4, shortened.
        let text = "=====================================\n2026-07-01 09:30:00 0x7f INNODB MONITOR OUTPUT\n\
            =====================================\n------------------------\nLATEST DETECTED DEADLOCK\n\
            ------------------------\n2026-07-01 09:29:00 0x7f\n*** (1) TRANSACTION:\nTRANSACTION 7, ACTIVE 3 sec\n\
            UPDATE t SET a = 'alice'\n*** WE ROLL BACK TRANSACTION (1)\n------------\nTRANSACTIONS\n------------\n\
            Trx id counter 4711\nHistory list length 23\nLIST OF TRANSACTIONS FOR EACH SESSION:\n\
            ---TRANSACTION 9, ACTIVE 2 sec\nMySQL thread id 8, OS thread handle 1, query id 3 localhost root updating\n\
            DELETE FROM t WHERE b = 'alice'\n";
        let shown = status_without_literals(text);
        assert!(shown.contains("23") && !shown.contains("alice"), "{shown}");
    }

    #[test]
    fn a_plan_keeps_its_columns_and_steers_no_terminal() {
        assert_eq!(cells("a\tb\n\u{1b}[2J\tNULL\n"), "a\tb\n\\u{1b}[2J\tNULL\n");
        assert_eq!(lines("CREATE\n  `a\u{1b}`"), "CREATE\n  `a\\u{1b}`");
    }
}
