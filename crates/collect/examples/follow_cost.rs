//! The cost of each source, here and in the server: the numbers behind `src/pace.rs`.
//!
//! `cargo run --release -p spindoctor-collect --example follow_cost -- SOCKET [USER] [ROUNDS] [SECONDS]`
//!
//! First each source is asked ROUNDS times. The server's part is the CPU time of the thread that serves this program's
//! session, so that other load on the server does not count. Then all of it is followed for SECONDS, with the ring of
//! stacks beside it, and each of this program's threads says what it took. MySQL 9.7 and MariaDB 10.11 with 1,000
//! connections are made as `benches/src/idle_threads.rs` does.

#![expect(clippy::print_stdout, reason = "an example's result is what it prints")]

use std::borrow::Cow;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use spindoctor_collect::follow::{FollowOptions, Followed, Follower};
use spindoctor_collect::host::{self, find_server};
use spindoctor_collect::mysql::{Endpoint, Plan, Rows, SOURCES, Session, Target};
use spindoctor_collect::source::Answer;
use spindoctor_model::{HostSample, ServerSample};
use spindoctor_stacks::{RingOptions, RingThread};

/// Statements that a probe might ask ten times a second.
const PROBES: [&str; 10] = [
    "DO 1",
    "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.session_status WHERE VARIABLE_NAME IN \
     ('Threads_running', 'Threads_connected', 'Queries', 'Innodb_redo_log_current_lsn', \
     'Innodb_redo_log_checkpoint_lsn') UNION ALL SELECT EVENT_NAME, COUNT_STAR \
     FROM performance_schema.events_transactions_summary_global_by_event_name",
    "SHOW SESSION STATUS WHERE Variable_name IN ('Threads_running', 'Threads_connected', 'Queries', \
     'Innodb_max_trx_id', 'Innodb_checkpoint_age')",
    "SHOW GLOBAL STATUS LIKE 'Threads_running'",
    "SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_running', 'Threads_connected', 'Questions', 'Handler_commit', \
     'Innodb_redo_log_current_lsn', 'Innodb_redo_log_checkpoint_lsn', 'Innodb_checkpoint_age')",
    "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM performance_schema.global_status WHERE VARIABLE_NAME IN \
     ('Threads_running', 'Threads_connected', 'Questions', 'Handler_commit', 'Innodb_redo_log_current_lsn', \
     'Innodb_redo_log_checkpoint_lsn')",
    "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN \
     ('Threads_running', 'Threads_connected', 'Questions', 'Handler_commit', 'Innodb_checkpoint_age')",
    "SELECT NAME, `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME IN \
     ('trx_rw_commits', 'log_lsn_checkpoint_age', 'dml_reads', 'dml_inserts')",
    "SELECT COUNT(*), SUM(PROCESSLIST_COMMAND = 'Query') FROM performance_schema.threads",
    "SELECT EVENT_NAME, COUNT_STAR FROM performance_schema.events_statements_summary_global_by_event_name \
     WHERE EVENT_NAME = 'statement/sql/commit'",
];

/// What one of them took.
struct Took {
    wall_ms: f64,
    own_ms: f64,
    server_ms: f64,
}

impl Took {
    fn print(&self, what: &str, rows: usize) {
        let Self { wall_ms, own_ms, server_ms } = self;
        println!("{wall_ms:8.3} {own_ms:8.3} {server_ms:8.3} {rows:6}  {what}");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let socket = arguments.next().ok_or("give the server's socket")?;
    let user = arguments.next().unwrap_or_else(|| "root".to_owned());
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(50);
    let target = Target::new(Endpoint::Socket(socket.into()), user);
    let mut session = Session::connect(&target, &target.limits).await?;
    let pid = find_server::find(&target).map_err(|why| why.because)?;
    let tid = thread_of(&mut session).await?;
    let server_cpu = || run_ms(&format!("/proc/{pid}/task/{tid}/schedstat"));
    println!("{}, {rounds} rounds, ms each", session.server());
    println!("    wall      own   server   rows");

    let version = session.version().ok_or("no version")?;
    let mut sample = ServerSample::default();
    for source in SOURCES {
        let statement: Option<Cow<'static, str>> = match (source.plan)(version, sample.variables.value()) {
            Plan::Ask(sql) => Some(sql.into()),
            Plan::AskAbout(about) => about(&sample).ok().flatten().map(Into::into),
            Plan::Elsewhere | Plan::Cannot(_) => None,
        };
        let Some(statement) = statement else {
            println!("{:>33}  {}", "not asked", source.name);
            continue;
        };
        let (took, rows) = ask(&mut session, &statement, rounds, &server_cpu, &mut |rows| {
            (source.parse)(rows, Answer::default(), &mut sample);
        })
        .await;
        took.print(source.name, rows);
    }
    println!("---");
    let begun = (Instant::now(), own_ms(), server_cpu());
    for _ in 0..rounds * 10 {
        session.ping().await?;
    }
    since(begun, &server_cpu, rounds * 10).print("COM_PING", 0);
    for statement in PROBES {
        let (took, rows) = ask(&mut session, statement, rounds, &server_cpu, &mut |_| ()).await;
        took.print(statement, rows);
    }
    println!("---");
    let host = host::Target::live(pid);
    for source in host::SOURCES {
        let rounds = if source.name == "pause" { 1 } else { rounds };
        let mut sample = HostSample::default();
        let begun = (Instant::now(), own_ms(), 0.0);
        for _ in 0..rounds {
            (source.read)(&host, &mut sample, &Answer::default);
        }
        since(begun, &|| 0.0, rounds).print(source.name, 0);
    }
    session.close().await;
    let seconds = arguments.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    if seconds > 0 {
        println!("---");
        follow(target, pid, Duration::from_secs(seconds)).await?;
    }
    Ok(())
}

/// Follows the server, and says what that took once it has settled.
async fn follow(target: Target, pid: u32, lasts: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let ring = RingThread::start(pid, RingOptions::default())?;
    let mut follower = Follower::start(target, FollowOptions::default());
    let settled = Instant::now() + Duration::from_secs(5);
    let (mut begun, mut threads) = (Instant::now(), threads_cpu_ms());
    let mut costs = follower.costs();
    let mut stacks = ring.cost();
    let (mut samples, mut probes, mut slowest_ms) = (0, 0, 0.0_f64);
    let mut has_settled = false;
    while begun.elapsed() < lasts {
        match follower.next().await.ok_or("sampling failed")? {
            Followed::Sample(_) => samples += 1,
            Followed::Probe(probe) => {
                probes += 1;
                slowest_ms = slowest_ms.max(probe.took_ms);
            }
            Followed::Segment(segment) => println!("{segment:?}"),
            Followed::Gap(gap) => println!("{gap:?}"),
            Followed::Overdue(asked_s) => println!("the probe asked at {asked_s:.1} s has no answer yet"),
            Followed::Restart(restart) => println!("{restart}"),
            Followed::Note(note) => println!("{note}"),
            Followed::Refused(error) => return Err(error.into()),
        }
        if !has_settled && Instant::now() > settled {
            has_settled = true;
            (begun, threads, costs, stacks) =
                (Instant::now(), threads_cpu_ms(), follower.costs(), ring.cost());
            (samples, probes, slowest_ms) = (0, 0, 0.0);
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("{samples} samples, {probes} probes, the slowest took {slowest_ms:.1} ms");
    println!("asked a second, ms each, rows each, source");
    for (now, before) in follower.costs().iter().zip(&costs) {
        let asked = (now.asked - before.asked) as f64;
        let each = |sum: f64| if asked > 0.0 { sum / asked } else { 0.0 };
        println!(
            "{:8.2} {:8.3} {:8.1}  {}",
            asked / seconds,
            each(now.took_ms - before.took_ms),
            each((now.rows - before.rows) as f64),
            now.source
        );
    }
    let mut sum_ms = 0.0;
    for (name, ms) in threads_cpu_ms() {
        let before = threads.iter().find(|(other, _)| *other == name).map_or(0.0, |(_, ms)| *ms);
        sum_ms += ms - before;
        println!("{:8.3} ms of CPU a second  {name}", (ms - before) / seconds);
    }
    let stacks = ring.cost().snapshots - stacks.snapshots;
    println!(
        "{:8.3} % of a core in all; {:.2} snapshots a second",
        sum_ms / seconds / 10.0,
        stacks as f64 / seconds
    );
    for line in std::fs::read_to_string("/proc/self/status")?.lines() {
        if line.starts_with("VmRSS") || line.starts_with("Rss") {
            println!("{line}");
        }
    }
    Ok(())
}

/// CPU time of each of this program's threads so far.
fn threads_cpu_ms() -> Vec<(String, f64)> {
    let entries = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |path: std::path::PathBuf| {
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let id = path.file_name()?.to_string_lossy().into_owned();
        Some((format!("{} {id}", name.trim_end()), run_ms(&path.join("schedstat").to_string_lossy())))
    };
    entries.filter_map(|entry| of(entry.path())).collect()
}

/// Asks again and again, with pauses: a server that was asked just now has it all in its caches. Of the wall time and
/// the server's the median is printed: it excludes a busy moment of the machine and the first, slower time.
async fn ask(
    session: &mut Session,
    statement: &str,
    rounds: u32,
    server_cpu: &dyn Fn() -> f64,
    parse: &mut dyn FnMut(&Rows),
) -> (Took, usize) {
    let (mut wall_ms, mut server_ms, mut rows) = (Vec::new(), Vec::new(), 0);
    let own_before_ms = own_ms();
    for _ in 0..rounds {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let (asked, before_ms) = (Instant::now(), server_cpu());
        match session.query(statement).await {
            Ok(answer) => {
                parse(&answer);
                rows = answer.len();
            }
            Err(error) => {
                println!("{error}");
                break;
            }
        }
        wall_ms.push(asked.elapsed().as_secs_f64() * 1e3);
        // The kernel counts it once the thread waits for the next question.
        tokio::time::sleep(Duration::from_millis(5)).await;
        server_ms.push(server_cpu() - before_ms);
    }
    let own_ms = (own_ms() - own_before_ms) / f64::from(rounds);
    // 0 where nothing was measured.
    let median = |values: Vec<f64>| spindoctor_model::median(values).unwrap_or_default();
    (Took { wall_ms: median(wall_ms), own_ms, server_ms: median(server_ms) }, rows)
}

fn since(begun: (Instant, f64, f64), server_cpu: &dyn Fn() -> f64, rounds: u32) -> Took {
    let rounds = f64::from(rounds);
    Took {
        wall_ms: begun.0.elapsed().as_secs_f64() * 1e3 / rounds,
        own_ms: (own_ms() - begun.1) / rounds,
        server_ms: (server_cpu() - begun.2) / rounds,
    }
}

/// The kernel's id of the thread that serves this session.
async fn thread_of(session: &mut Session) -> Result<u64, Box<dyn std::error::Error>> {
    let maria = session.version().is_some_and(spindoctor_model::ServerVersion::is_mariadb);
    let rows = session
        .query(if maria {
            "SELECT TID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()"
        } else {
            "SELECT THREAD_OS_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()"
        })
        .await?;
    Ok(rows.first().and_then(|row| row.at(0)?.parse().ok()).ok_or("no thread id")?)
}

/// CPU time of this process so far.
fn own_ms() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}

/// The first number of a `schedstat`: time on a CPU.
fn run_ms(path: &str) -> f64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_ascii_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default() / 1e6
}
