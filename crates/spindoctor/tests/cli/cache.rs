//! `spindoctor cache` on real servers with a real replica, and on bad days.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use spindoctor_lab::{Data, Server, ServerSpec, Which};

use crate::lab::{self, in_runtime};
use crate::program::{complained, json, printed};
use crate::running::{Running, process};

/// Longer than any of this takes on a machine that is not on its knees.
const PATIENCE: Duration = Duration::from_secs(60);
/// Each update writes 8 MiB of binary log: the row as it was and as it is.
const UPDATE: &str = "UPDATE sbtest.wide SET v = REPEAT(CHAR(98 + RAND() * 20), 4194304)";
const FLUSH: &str = "FLUSH BINARY LOGS";

async fn start(which: Which, data: Data, options: &[&str]) -> Server {
    let options = options.iter().map(|&option| option.to_owned()).collect();
    let spec = ServerSpec { which, data, options, ..ServerSpec::default() };
    lab::start(&spec).await
}

/// A source on a disk with some binary logs, and a replica that has read them and is now stopped: its dump thread is
/// stuck in one of those that follow.
async fn source_with_stuck_replica(which: Which) -> (Server, Server) {
    let options = ["--server-id=2", "--log-bin=binlog", "--sync-binlog=1", "--loose-binlog-format=ROW"];
    let source = start(which.clone(), Data::Disk, &options).await;
    let begin = [
        "CREATE USER follower@127.0.0.1",
        "GRANT REPLICATION SLAVE ON *.* TO follower@127.0.0.1",
        "CREATE TABLE sbtest.wide (v LONGBLOB) ENGINE = MyISAM",
        "INSERT INTO sbtest.wide VALUES (REPEAT('a', 4194304))",
    ];
    source.execute(begin.into_iter().chain([UPDATE, FLUSH, UPDATE, FLUSH])).await.expect("binary logs");
    let replica = start(which, Data::Tmpfs, &[]).await;
    let port = source.port();
    let follow = match replica.version().is_mariadb() {
        true => [
            format!(
                "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'follower', \
                 MASTER_USE_GTID = slave_pos"
            ),
            "START SLAVE".to_owned(),
        ],
        false => [
            format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {port}, \
                 SOURCE_USER = 'follower', GET_SOURCE_PUBLIC_KEY = 1"
            ),
            "START REPLICA".to_owned(),
        ],
    };
    replica.execute(follow).await.expect("a replica");
    const FED: &str = "SELECT COUNT(*) FROM information_schema.processlist \
                       WHERE command LIKE 'Binlog Dump%' AND state LIKE '%has sent all%'";
    let begun = Instant::now();
    while source.ask(FED).await.expect("an answer").as_deref() != Some("1") {
        assert!(begun.elapsed() < PATIENCE, "the replica does not follow");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    replica.pause(true);
    // How much the sockets' buffers hold is the machine's matter: until the dump thread no longer follows.
    let mut logs = Vec::new();
    while logs.len() < 2 {
        assert!(begun.elapsed() < PATIENCE, "the dump thread is never stuck");
        source.execute([UPDATE, UPDATE, FLUSH, UPDATE]).await.expect("more binary logs");
        tokio::time::sleep(Duration::from_millis(300)).await;
        let report = json(&line(&source, "--json"));
        logs = files(&report, "binlog").into_iter().map(|(path, ..)| path.to_owned()).collect();
        let read = read_by_replica(&report);
        logs.retain(|path| *path > read);
    }
    (source, replica)
}

/// The path of the log that the replica's dump thread reads.
fn read_by_replica(report: &Value) -> String {
    let kept = report["kept"].as_array().expect("a list");
    let read = kept.iter().find(|kept| kept["because"] == "a replica reads it").expect("a reader");
    read["path"].as_str().expect("a path").to_owned()
}

fn line(server: &Server, rest: &str) -> String {
    format!("cache -u root -S {} --no-defaults --duration 100ms {rest}", server.socket().display())
}

/// Path, size and cached bytes of the files of a kind.
fn files<'a>(report: &'a Value, kind: &str) -> Vec<(&'a str, u64, u64)> {
    let number = |file: &Value, name: &str| file[name].as_u64().expect("a number");
    let files = report["files"].as_array().expect("a list").iter().filter(|file| file["kind"] == kind);
    files
        .map(|file| {
            (file["path"].as_str().expect("a path"), number(file, "bytes"), number(file, "cached_bytes"))
        })
        .collect()
}

/// But for a page or two that are to be written yet: a server that closes a log marks its beginning, and does not sync that.
fn is_out((_, _, cached): &(&str, u64, u64)) -> bool {
    *cached <= 64 << 10
}

/// Most of it is cached: the kernel may take some of it back at any time.
fn is_in((_, bytes, cached): &(&str, u64, u64)) -> bool {
    *cached >= bytes / 2
}

fn closed_logs_leave_and_what_the_replica_reads_stays(which: Which) {
    let (source, replica) = in_runtime(source_with_stuck_replica(which));

    let before = json(&line(&source, "--json"));
    assert_eq!(before["schema"], "spindoctor.cache/1");
    assert_eq!(before["server"]["pid"], source.pid());
    for kind in ["data", "redo", "binlog"] {
        assert!(!files(&before, kind).is_empty(), "{kind}: {before:#}");
    }
    let logs = files(&before, "binlog");
    assert!(logs.iter().all(is_in), "just written: {logs:?}");
    let evictable = before["evictable_bytes"].as_u64().expect("a number");
    assert!(evictable > 8 << 20, "{before:#}");
    let data = |report: &Value| {
        let files = files(report, "data");
        files.into_iter().find(|(path, ..)| path.ends_with("/wide.MYD")).map(|(_, _, cached)| cached)
    };
    let wide = data(&before).expect("the table's file");
    assert!(wide >= 4 << 20, "{before:#}");

    let after = json(&line(&source, "--json --evict logs"));
    let read = read_by_replica(&after);
    let (left, stay): (Vec<_>, Vec<_>) =
        files(&after, "binlog").into_iter().partition(|(path, ..)| *path < read.as_str());
    assert!(left.len() >= 2 && left.iter().all(is_out), "{left:?}");
    assert!(stay.len() >= 2 && stay.iter().all(is_in), "{read}: {stay:?}");
    assert_eq!(data(&after), Some(wide), "data files are not touched");
    assert!(after["eviction"]["files"].as_u64().is_some_and(|files| files >= 2), "{after:#}");

    let (text, code) = printed(&line(&source, ""));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("a replica reads it") && text.contains("Settings"), "{text}");

    // The replica goes on, and what it leaves behind leaves the cache.
    replica.pause(false);
    let follows = line(&source, "--json --evict logs --follow --interval 200ms");
    let mut running = Running::start(&mut process(&follows));
    let pid = Pid::from_raw(running.id().cast_signed()).expect("a process id");
    // Nothing is printed where nothing leaves: a test that waits for it in vain has to end.
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if wait.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            kill_process(pid, Signal::KILL).expect("it runs");
        }
    });
    let newest = stay.last().expect("one is written").0.to_owned();
    let has_caught_up = std::iter::from_fn(|| running.line()).any(|line| {
        let look: Value = serde_json::from_str(&line).expect("JSON");
        files(&look, "binlog").iter().all(|log| log.0 >= newest.as_str() || is_out(log))
    });
    assert!(has_caught_up, "closed logs stay in the cache when the replica has read them");
    let ended = running.interrupted();
    drop(done);
    guard.join().expect("it ends");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    drop((source, replica));
}

#[test]
fn closed_logs_of_a_mysql_leave_and_what_its_replica_reads_stays() {
    closed_logs_leave_and_what_the_replica_reads_stays(Which::Mysql);
}

#[test]
fn closed_logs_of_a_mariadb_leave_and_what_its_replica_reads_stays() {
    closed_logs_leave_and_what_the_replica_reads_stays(Which::Mariadb);
}

#[test]
fn bad_days_end_with_one_line_and_exit_2() {
    for (rest, said) in [
        ("--remote", "without --remote"),
        ("-S /nonexistent/mysqld.sock", "process was not found"),
        ("--follow", "--evict"),
        ("--evict data", "logs"),
        ("--evict logs --follow --max-rate 1", "unit of size"),
    ] {
        let (message, code) = complained(&format!("cache --no-defaults {rest}"));
        assert_eq!(code, 2, "{rest}");
        assert!(message.contains(said), "{rest}: {message}");
    }
}
