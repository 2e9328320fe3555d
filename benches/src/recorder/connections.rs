//! The recorder alone, where connections multiply: what it and its statements take of a core, and which statement how much.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use spindoctor_lab::Which;
use spindoctor_lab::load::Workload;

use super::ground::{BUSY, Ground};
use super::looker::Looker;
use crate::page::Row;
use crate::paired::{Spread, short};
use crate::{Bench, Benchmark, progress};

/// Transactions a second of all clients: each of twenty statements.
const RATE: u32 = 50;
/// Its first minute, in which it asks everything, is over.
const WARM_UP: Duration = Duration::from_secs(75);
const MINUTE: Duration = Duration::from_secs(60);
/// Connections in all, of each server; of MySQL also so many as the machine can have, at most [`MOST`].
const OF_BOTH: [usize; 2] = [1_000, MANY];
const MANY: usize = 5_000;
const MOST: usize = 20_000;
/// Each connection is a file here, and one of the server, which this program starts: so many are for all else. The server keeps 810 for
/// itself and its tables (MySQL's `adjust_max_connections`), and takes one by one as they are opened.
const OTHER_FILES: usize = 2_000;
/// How often each of the other commands is run.
const COMMANDS: usize = 2;
/// Its own CPU time and the server's for it.
const MOST_OF_A_CORE: f64 = 1.0;
/// With five times the connections.
const MOST_TIMES: f64 = 1.5;
/// Statements that are listed.
const STATEMENTS: usize = 12;
/// Of the text of each so much.
const TEXT: usize = 90;

pub(crate) const BENCHMARK: Benchmark = Benchmark {
    name: "recorder-connections",
    of: super::OF,
    minutes: 15,
    story: "`spindoctor record` alone beside 1,000 and 5,000 connections of MySQL and MariaDB, and beside as many of MySQL as a \
            process may have files here, less 2,000 for all else, at most 20,000: of which 256 are sysbench's oltp_read_write with 1,000 statements a \
            second in all and all others do nothing. From 75 s after its start on, a minute with twelve runs: its \
            CPU time, and that of the server's threads that serve its sessions. Of MySQL the statements, as the \
            server's summary of digests counts them: how often, what each takes of the server's CPU, and their \
            share of a core. Beside 5,000 connections `stacks --hz 2`, `doctor` and `locks`, too, each twice.",
    run: |bench| Box::pin(run(bench)),
};

async fn run(bench: &Bench) -> anyhow::Result<Vec<Row>> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(MOST + OTHER_FILES)?;
    let more = Rlimit { current: Some(wanted), maximum: limit.maximum.map(|maximum| maximum.max(wanted)) };
    // Not every root may have more than the maximum.
    let files = match (setrlimit(Resource::Nofile, more), limit.maximum) {
        (Err(_), Some(maximum)) => {
            setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
            usize::try_from(maximum)?
        }
        (Ok(()), _) | (_, None) => MOST + OTHER_FILES,
    };
    let most = files.saturating_sub(OTHER_FILES).min(MOST);
    let of_mysql = OF_BOTH.into_iter().chain((most > MANY).then_some(most));
    let mut rows = on(bench, &Which::Mysql, "MySQL", &of_mysql.collect::<Vec<_>>()).await?;
    rows.extend(on(bench, &Which::Mariadb, "MariaDB", &OF_BOTH).await?);
    setrlimit(Resource::Nofile, limit)?;
    Ok(rows)
}

async fn on(bench: &Bench, which: &Which, server: &str, all: &[usize]) -> anyhow::Result<Vec<Row>> {
    let (mut rows, mut in_all) = (Vec::new(), Vec::new());
    for &connections in all {
        progress(&format!("recorder-connections: {server} with {connections}"));
        let what = |what: &str| format!("{server}, {connections} connections: {what}");
        let seen = match measure(bench, which.clone(), connections).await {
            // A machine may have no room for so many.
            Err(error) if connections > MANY => {
                let error = format!("{error:#}").replace(['|', '\n'], " ");
                rows.push(Row::plain(what("CPU"), format!("not measured: {error}")));
                continue;
            }
            seen => seen?,
        };
        let both = Spread::from_values(&seen.sums());
        rows.push(Row::plain(what("CPU"), Spread::from_values(&seen.own).text("% of a core")));
        let of_server = Spread::from_values(&seen.server).text("% of a core");
        rows.push(Row::plain(what("the server's CPU for it"), of_server));
        let text = both.text("% of a core");
        rows.push(match in_all.is_empty() {
            true => Row::goal(what("both"), text, "<= 1 %", both.median <= MOST_OF_A_CORE),
            false => Row::plain(what("both"), text),
        });
        rows.push(Row::plain(what("resident memory"), format!("{} MiB", short(seen.resident_mib))));
        in_all.push(both.median);
        rows.extend(seen.statements.iter().map(|statement| statement.row(&what)));
        rows.extend(seen.commands.iter().map(|(command, took)| Row::plain(what(command), took)));
    }
    let few = in_all.first().copied().unwrap_or(f64::NAN);
    for (&connections, many) in all.iter().zip(&in_all).skip(1) {
        let times = many / few;
        let what = format!("{server}: both with {connections} connections, of both with {}", all[0]);
        let text = format!("{} times", short(times));
        rows.push(match connections {
            MANY => Row::goal(what, text, "<= 1.5 times", times <= MOST_TIMES),
            _ => Row::plain(what, text),
        });
    }
    Ok(rows)
}

/// What was seen of one server.
struct Measured {
    /// Percent of a core, by the minute.
    own: Vec<f64>,
    server: Vec<f64>,
    resident_mib: f64,
    statements: Vec<Statement>,
    /// What the other commands took.
    commands: Vec<(&'static str, String)>,
}

impl Measured {
    fn sums(&self) -> Vec<f64> {
        self.own.iter().zip(&self.server).map(|(own, server)| own + server).collect()
    }
}

/// A statement of the recorder's.
struct Statement {
    text: String,
    a_second: f64,
    each_ms: f64,
    /// Percent of a core.
    core: f64,
}

impl Statement {
    fn row(&self, what: &dyn Fn(&str) -> String) -> Row {
        let Self { text, a_second, each_ms, core } = self;
        let short_text: String = text.chars().take(TEXT).collect();
        let measured =
            format!("{} a second, {} ms each, {} %", short(*a_second), short(*each_ms), short(*core));
        // A bar would end the cell of the table.
        Row::plain(what(&format!("`{}`", short_text.replace('`', "").replace('|', "/"))), measured)
    }
}

async fn measure(bench: &Bench, which: Which, connections: usize) -> anyhow::Result<Measured> {
    let idle = connections - BUSY as usize;
    let mut ground = Ground::with(bench, which, idle, Workload::OltpReadWrite, Some(RATE)).await?;
    let folder = tempfile::Builder::new().prefix("spindoctor-connections-").tempdir()?;
    let user = Looker::Record.user();
    ground.admit(user).await?;
    let mut looking = Looker::Record.start(bench, ground.server.socket(), folder.path())?;
    tokio::time::sleep(WARM_UP).await;
    let (mut own, mut server, mut resident_mib) = (Vec::new(), Vec::new(), 0.0_f64);
    let (begun, statements) = (Instant::now(), ground.statements().await?);
    for _ in 0..bench.runs.div_ceil(12) {
        let (from, own_s, sessions) =
            (Instant::now(), looking.taken()?.cpu_s, ground.sessions_cpu_s(user).await?);
        tokio::time::sleep(MINUTE).await;
        ground.load.check()?;
        let taken = looking.taken()?;
        // What a thread took before it served a session that came meanwhile is not known: such a session is left out.
        let of_server: f64 = ground
            .sessions_cpu_s(user)
            .await?
            .iter()
            .map(|(id, cpu_s)| (cpu_s - sessions.get(id).unwrap_or(cpu_s)).max(0.0))
            .sum();
        let seconds = from.elapsed().as_secs_f64();
        own.push(100.0 * (taken.cpu_s - own_s) / seconds);
        server.push(100.0 * of_server / seconds);
        resident_mib = resident_mib.max(taken.resident_mib);
    }
    let statements = statements_between(&statements, &ground.statements().await?, begun.elapsed());
    looking.end()?;
    let commands = if connections == MANY { commands(bench, &ground).await? } else { Vec::new() };
    ground.stop().await?;
    Ok(Measured { own, server, resident_mib, statements, commands })
}

/// What the other commands take beside so many connections, now that the recorder has ended.
async fn commands(bench: &Bench, ground: &Ground) -> anyhow::Result<Vec<(&'static str, String)>> {
    let socket = ground.server.socket().display().to_string();
    let run = async |command: &[&str]| {
        let connection = ["--json", "--no-defaults", "-u", "root", "-S", &socket];
        bench.spindoctor.run(&[command, &connection].concat()).await
    };
    let (mut snapshot_ms, mut doctor_s, mut locks_ms) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..COMMANDS {
        let ran = run(&["stacks", "--hz", "2", "--duration", "5s"]).await?;
        snapshot_ms.push(ran.number("/snapshot_ms/p50")?);
        let ran = run(&["doctor", "--duration", "10s", "--fail-on", "never"]).await?;
        doctor_s.push(ran.took.as_secs_f64());
        locks_ms.push(1e3 * run(&["locks"]).await?.took.as_secs_f64());
    }
    Ok(vec![
        ("one snapshot of `stacks`", Spread::from_values(&snapshot_ms).text("ms")),
        ("`doctor --duration 10s`, from start to exit", Spread::from_values(&doctor_s).text("s")),
        ("`locks`, from start to exit", Spread::from_values(&locks_ms).text("ms")),
    ])
}

/// The costliest, by what they took of the server in this time.
fn statements_between(
    before: &BTreeMap<String, (u64, f64)>,
    after: &BTreeMap<String, (u64, f64)>,
    lasted: Duration,
) -> Vec<Statement> {
    let seconds = lasted.as_secs_f64();
    let grown = |(text, (count, cpu_s)): (&String, &(u64, f64))| {
        let (count_before, cpu_s_before) = before.get(text).copied().unwrap_or_default();
        let count = count.checked_sub(count_before).filter(|count| *count > 0)? as f64;
        let cpu_s = cpu_s - cpu_s_before;
        Some(Statement {
            text: text.clone(),
            a_second: count / seconds,
            each_ms: 1e3 * cpu_s / count,
            core: 100.0 * cpu_s / seconds,
        })
    };
    let mut grown: Vec<Statement> = after.iter().filter_map(grown).collect();
    grown.sort_by(|a, b| b.core.total_cmp(&a.core));
    grown.truncate(STATEMENTS);
    grown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_counted_between_two_looks_the_costliest_first() {
        let of = |pairs: &[(&str, u64, f64)]| -> BTreeMap<String, (u64, f64)> {
            pairs.iter().map(|(text, count, cpu_s)| ((*text).to_owned(), (*count, *cpu_s))).collect()
        };
        let before = of(&[("DO ?", 100, 1.0), ("SHOW STATUS", 7, 1.0), ("SELECT ?", 3, 1.0)]);
        let after = of(&[("DO ?", 200, 1.02), ("SHOW STATUS", 17, 1.5), ("SELECT ?", 3, 1.0)]);
        let seen = statements_between(&before, &after, Duration::from_secs(10));
        let texts: Vec<&str> = seen.iter().map(|statement| statement.text.as_str()).collect();
        assert_eq!(texts, ["SHOW STATUS", "DO ?"]);
        assert_eq!((seen[0].a_second, seen[0].each_ms.round(), seen[0].core.round()), (1.0, 50.0, 5.0));
    }
}
