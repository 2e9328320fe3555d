//! `spindoctor doctor --from`: what is printed of captures, and the exit codes.

use std::fs;

use crate::program::{complained, printed};

/// Two threads that wait for each other's mutexes, as an error log has it.
const RING: &str = "DEADLOCK of threads detected!\n\
    --Thread 11 has waited at buf0buf.cc line 5406 for 0 seconds the semaphore:\n\
    Mutex at 0xff01, Mutex BUF_POOL_LRU_LIST created buf0buf.cc:1231, locked by 12\n\
    --Thread 12 has waited at fil0fil.cc line 2233 for 0 seconds the semaphore:\n\
    Mutex at 0xff02, Mutex FIL_SHARD created fil0fil.cc:2014, locked by 11\n\n";

#[test]
fn a_capture_is_listed_diagnosed_and_decides_over_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("error.log");
    fs::write(&file, RING).unwrap();
    let (text, code) = printed(&format!("doctor --from {}", file.display()));
    assert_eq!(code, 1);
    assert!(text.contains("error.log: error log, 6 lines"), "{text}");
    assert!(text.contains("2 threads wait for each other's latches"), "{text}");
    let (json, code) = printed(&format!("doctor --json --fail-on never --from {}", folder.path().display()));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, json["given"][0]["kind"].as_str()), (0, Some("error log")));
    assert_eq!(json["findings"][0]["cause"], "latch-pileup");
    let (line, code) = printed(&format!("doctor --nagios --from {}", file.display()));
    assert_eq!(code, 2);
    assert!(line.starts_with("SPINDOCTOR CRITICAL - 1 finding: 2 threads"), "{line}");
}

#[test]
fn what_nobody_knows_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    fs::write(&file, "Hello\u{1b}[2J world\nno status here\n").unwrap();
    let (message, code) = complained(&format!("doctor --from {}", file.display()));
    assert_eq!((code, message.lines().count()), (2, 1), "{message}");
    assert!(
        message.contains("nothing in notes.txt was recognised") && !message.contains('\u{1b}'),
        "{message}"
    );
    let (message, code) = complained(&format!("doctor --from {}/none", folder.path().display()));
    assert_eq!((code, message.lines().count()), (2, 1), "{message}");
}

#[test]
fn where_nothing_is_found_it_is_no_proof() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("list");
    fs::write(&file, "Id\tUser\tCommand\tTime\tState\tInfo\n7\tapp\tSleep\t3\t\tNULL\n").unwrap();
    let (text, code) = printed(&format!("doctor --from {}", file.display()));
    assert_eq!(code, 0);
    assert!(text.contains("that does not prove that all was well"), "{text}");
    assert!(text.contains("SHOW ENGINE INNODB STATUS"), "{text}");
}

/// What is no file of text, and what has no end.
#[test]
fn devices_pipes_rings_of_folders_and_bombs_have_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::File::create(at("zeros")).unwrap().set_len(1 << 30).unwrap();
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    (0..200).for_each(|_| std::io::Write::write_all(&mut bomb, &[0; 1 << 20]).unwrap());
    fs::write(at("bomb.gz"), bomb.finish().unwrap()).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RUSR).unwrap();
    fs::create_dir(at("ring")).unwrap();
    std::os::unix::fs::symlink("..", at("ring/up")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    std::os::unix::fs::symlink("itself", at("itself")).unwrap();
    fs::create_dir(at("many")).unwrap();
    (0..2_100).for_each(|number| fs::write(at(&format!("many/{number}")), "").unwrap());
    let named = |name: &str| at(name).display().to_string();
    for (name, says) in [
        (named("socket"), "neither a file, a folder nor a pipe"),
        (named("itself"), "could not read"),
        (named("many"), "only the first 2000 of its files were read"),
        ("/dev/zero".to_owned(), "neither a file, a folder nor a pipe"),
        (named("zeros"), "there is nothing to read"),
        (named("bomb.gz"), "there is nothing to read"),
        (named("pipe"), "there is nothing to read"),
        (named("ring"), "there is nothing to read"),
    ] {
        let (message, code) = complained(&format!("doctor --from {name}"));
        assert_eq!((code, message.lines().count()), (2, 1), "{message}");
        assert!(message.contains(says), "{message}");
    }
}

/// Each command that reads a file by its name.
#[test]
fn a_pipe_that_nobody_writes_into_is_said_by_every_command_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    for line in ["doctor --window", "stacks --load", "fleet servers --servers", "workload --file"] {
        let (message, code) = complained(&format!("{line} {}", pipe.display()));
        assert_eq!((code, message.lines().count()), (2, 1), "{line}: {message}");
        assert!(message.contains("nobody writes into this pipe"), "{line}: {message}");
    }
}

/// A line of 2 MB, and a log that is more than 64 MB long when it is unpacked.
#[test]
fn what_is_longer_than_any_capture_is_read_in_part() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("line");
    fs::write(&file, "x".repeat(2 << 20)).unwrap();
    let (message, code) = complained(&format!("doctor --from {}", file.display()));
    assert_eq!((code, message.lines().count()), (2, 1), "{message}");
    assert!(message.len() < 1_000, "{message}");
    let log = "2024-03-11T02:54:40.110002Z 814 [Warning] Too many connections\n";
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut packed, log.as_bytes()).unwrap();
    (0..70).for_each(|_| std::io::Write::write_all(&mut packed, &[0; 1 << 20]).unwrap());
    fs::write(&file, packed.finish().unwrap()).unwrap();
    let (text, code) = printed(&format!("doctor --from {}", file.display()));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("only its first 64 MiB were read"), "{text}");
}

/// An archive of these files, within gzip.
fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut archive = tar::Builder::new(packed);
    for (name, text) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        archive.append_data(&mut header, name, text.as_bytes()).expect("memory takes it");
    }
    archive.into_inner().expect("memory takes it").finish().expect("memory takes it")
}

/// A folder of pt-stalk is sent as one file.
#[test]
fn an_archive_is_read_as_the_folder_that_is_in_it() {
    const LIST: &str = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n\
                        7\tapp\th:1\tshop\tQuery\t90\tWaiting for table metadata lock\tALTER TABLE a ADD b INT\n\
                        8\tapp\th:1\tshop\tQuery\t80\tWaiting for table metadata lock\tSELECT b FROM a\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stalk.tgz");
    let whole = archive(&[
        ("stalk/2024_05_02_08_01_40-processlist", LIST),
        ("stalk/2024_05_02_08_01_40-hostname", "db7\n"),
        ("stalk/2024_05_02_08_01_40-packed", "PK\u{3}\u{4}"),
    ]);
    fs::write(&file, &whole).unwrap();
    let (text, code) = printed(&format!("doctor --from {}", file.display()));
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("stalk/2024_05_02_08_01_40-processlist: process list"), "{text}");
    assert!(text.contains("metadata-lock-pileup"), "{text}");
    assert!(text.contains("it is a zip archive"), "{text}");
    // Cut within its first file.
    fs::write(&file, &whole[..whole.len() / 3]).unwrap();
    let (message, code) = complained(&format!("doctor --from {}", file.display()));
    assert_eq!((code, message.lines().count()), (2, 1), "{message}");
}

/// Captures of two servers in one folder: the full one is named, and no number of the other stands beside its.
#[test]
fn two_servers_in_a_folder_are_not_mixed() {
    let folder = tempfile::tempdir().unwrap();
    let given = |name: &str, version: &str, limit: u32, connected: u32| {
        let text = format!(
            "Variable_name\tValue\ndatadir\t/d\nhostname\t{name}\nport\t3306\nversion\t{version}\nmax_connections\t{limit}\n\n\
             Variable_name\tValue\nQuestions\t400\nThreads_connected\t{connected}\nThreads_running\t3\nUptime\t5000\n"
        );
        fs::write(folder.path().join(name), text).unwrap();
    };
    given("db-a", "8.0.36", 4_000, 12);
    given("db-b", "5.7.44", 151, 151);
    let (text, code) = printed(&format!("doctor --from {}", folder.path().display()));
    assert_eq!(code, 1, "{text}");
    assert!(text.starts_with("MySQL 5.7.44, from what was given"), "{text}");
    assert!(text.contains("151 of 151 connections are taken"), "{text}");
    let says = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(says.contains("2 collections (db-a:3306, db-b:3306)"), "{text}");
}

/// The findings' causes, headlines and remedies of a capture that somebody pipes in, one a line.
fn answer(capture: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("capture");
    fs::write(&file, capture).expect("a file is written");
    let (json, _) = printed(&format!("doctor --json --fail-on never --from {}", file.display()));
    let json: serde_json::Value = serde_json::from_str(&json).expect("an answer in JSON");
    let mut lines = String::new();
    for finding in json["findings"].as_array().expect("a list") {
        let text = |of: &serde_json::Value, name: &str| of[name].as_str().unwrap_or_default().to_owned();
        lines.push_str(&format!("{}: {}\n", text(finding, "cause"), text(finding, "headline")));
        for remedy in finding["remedies"].as_array().expect("a list") {
            lines.push_str(&format!("  {}\n", text(remedy, "statement")));
        }
        for evidence in finding["evidence"].as_array().expect("a list") {
            lines.push_str(&format!("  {} {}\n", text(evidence, "reading"), evidence["value"]));
        }
    }
    lines
}

#[test]
fn the_table_that_the_waiters_name_says_who_has_its_lock() {
    let list = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n\
        11\tweb\th:1\twp\tQuery\t55\tWaiting for table level lock\tUPDATE wp_options SET v = 1 WHERE n = 'cron'\n\
        12\tweb\th:2\twp\tQuery\t54\tWaiting for table level lock\tSELECT n, v FROM wp_options WHERE autoload = 'yes'\n\
        13\tweb\th:3\twp\tQuery\t51\tWaiting for table level lock\tSELECT n, v FROM wp_options WHERE autoload = 'yes'\n\
        10\troot\th:4\twp\tQuery\t61\tcopy to tmp table\tOPTIMIZE TABLE wp_posts\n";
    let reader = "9\tweb\th:5\twp\tQuery\t59\tSending data\tSELECT * FROM wp_options o JOIN wp_meta m ON m.v LIKE o.n\n";
    let said = answer(&format!("{list}{reader}"));
    assert!(
        said.contains("table-lock-pileup") && said.contains("connection 9 most likely holds it"),
        "{said}"
    );
    assert!(said.contains("KILL QUERY 9\n") && !said.contains("KILL QUERY 10"), "{said}");
    let said = answer(list);
    assert!(
        said.contains("table-lock-pileup") && !said.contains("KILL"),
        "nobody at work names the table: {said}"
    );
}

#[test]
fn who_has_the_row_and_runs_nothing_is_ended_and_not_called_a_hot_row() {
    let list = "+---------+---------+---------+---------+---------+---------+---------+---------+\n\
        | locked_table | waiting_trx_id | waiting_pid | waiting_query | wait_age | blocking_trx_id | blocking_pid | blocking_query |\n\
        +---------+---------+---------+---------+---------+---------+---------+---------+\n\
        | `shop`.`stock` | 4412 | 88 | UPDATE stock SET n = n - 1 WHERE id = 5 | 00:00:19 | 4400 | 71 | NULL |\n\
        | `shop`.`stock` | 4413 | 89 | UPDATE stock SET n = n - 1 WHERE id = 5 | 00:00:07 | 4400 | 71 | NULL |\n\
        | `shop`.`stock` | 4413 | 89 | UPDATE stock SET n = n - 1 WHERE id = 5 | 00:00:07 | 4412 | 88 | UPDATE stock SET n = n - 1 WHERE id = 5 |\n";
    let said = answer(list);
    assert!(said.contains("row-lock-pileup") && said.contains("  KILL 71\n"), "{said}");
    assert!(!said.contains("KILL 88") && !said.contains("hot row"), "{said}");
}

#[test]
fn an_applier_that_is_far_behind_is_a_finding_of_the_list() {
    let list = |user: &str, state: &str, statement: &str| {
        format!(
            "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n\
             33\tsystem user\tconnecting host\tNULL\tConnect\t86400\tWaiting for source to send event\tNULL\n\
             35\t{user}\t\tapp\tQuery\t8123\t{state}\t{statement}\n\
             40\tapp\th:1\tapp\tSleep\t9\t\tNULL\n"
        )
    };
    let said = answer(&list(
        "system user",
        "Applying batch of row changes (delete)",
        "DELETE FROM sessions WHERE expires < '2024-05-01'",
    ));
    assert!(said.contains("replica-lag: The replica is 2.3 h behind its source"), "{said}");
    assert!(said.contains("DELETE FROM sessions WHERE expires < ?") && !said.contains("2024"), "{said}");
    let said = answer(&list("system user", "Update_rows_log_event::find_row(-1)", "NULL"));
    assert!(said.contains("replica-lag"), "{said}");
    for idle in
        ["Slave has read all relay log; waiting for more updates", "wsrep aborter idle", "committed 4711"]
    {
        let said = answer(&list("system user", idle, "NULL"));
        assert!(!said.contains("replica-lag"), "{idle}: {said}");
    }
}

/// What the section SEMAPHORES says of sessions that the list of transactions calls running.
#[test]
fn sessions_that_wait_for_a_latch_are_said_to_with_its_name() {
    let status = |file: &str, seconds: u32, does: &str| {
        let waits: String = (0..10)
            .map(|at| {
                format!(
                    "--Thread 13980{at} has waited at {file} line 128 for {seconds} seconds the semaphore:\n\
                     S-lock on RW-latch at 0x7f8a0b1 created in file {file} line 202\n\
                     a writer (thread id 139700) has reserved it in mode  exclusive\n\
                     number of readers 0, waiters flag 1, lock_word: 0\n\
                     Last time read locked in file {file} line 128\n\
                     Last time write locked in file {file} line 1034\n"
                )
            })
            .collect();
        let readers: String = (0..10)
            .map(|at| {
                format!(
                    "---TRANSACTION 42172311{at}, ACTIVE 1 sec fetching rows\n0 lock struct(s), heap size 1136, 0 row lock(s)\n\
                     MySQL thread id 50{at}, OS thread handle 13980{at}, query id 9912 10.0.0.1 app Sending data\n\
                     select * from t where a={at}\n"
                )
            })
            .collect();
        format!(
            "=====================================\n2024-02-07 13:11:21 0x7f8 INNODB MONITOR OUTPUT\n\
             =====================================\nPer second averages calculated from the last 12 seconds\n\
             ----------\nSEMAPHORES\n----------\nOS WAIT ARRAY INFO: reservation count 98231144\n{waits}\
             OS WAIT ARRAY INFO: signal count 1001334211\n------------\nTRANSACTIONS\n------------\n\
             Trx id counter 88123112331\nHistory list length 12\nLIST OF TRANSACTIONS FOR EACH SESSION:\n{readers}\
             ---TRANSACTION 88123112329, ACTIVE 2 sec dropping table\n1 lock struct(s), heap size 1136, 0 row lock(s), undo log entries 12\n\
             MySQL thread id 991, OS thread handle 139700, query id 99123 10.0.0.1 app {does}\ndrop table old\n\
             --------\nFILE I/O\n--------\nPending normal aio reads: [0, 0, 0, 0] , aio writes: [0, 0, 0, 0] ,\n"
        )
    };
    let said = answer(&status("btr0sea.ic", 0, "checking permissions"));
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("adaptive-hash-contention: 10 threads wait for the latch"), "{said}");
    assert!(said.contains("SET GLOBAL innodb_adaptive_hash_index = OFF"), "{said}");
    assert!(!said.contains("privilege cache"), "a table is dropped: {said}");
    let said = answer(&status("fil0fil.cc", 0, "checking permissions"));
    assert!(said.contains("tablespace rw-lock (fil0fil.cc:202)"), "{said}");
    let said = answer(&status("fil0fil.cc", 3, "checking permissions"));
    let first = said.lines().next().unwrap();
    assert!(first.starts_with("latch-pileup: ") && first.contains("which connection 991 has"), "{said}");
    assert!(!said.contains("unnamed-wait"), "{said}");
}

#[test]
fn a_transaction_that_xa_prepared_and_nobody_ends_is_seen_in_a_status() {
    let status = |state: &str| {
        format!(
            "---TRANSACTION 1122, ACTIVE {state}91233 sec recovered trx\n3 lock struct(s), heap size 1128, 2 row lock(s), undo log entries 4\n\
             ---TRANSACTION 2231, ACTIVE 21 sec starting index read\nmysql tables in use 1, locked 1\n\
             LOCK WAIT 2 lock struct(s), heap size 1128, 1 row lock(s)\n\
             MySQL thread id 71, OS thread handle 1, query id 2 localhost app updating\nupdate acc set b=b-1 where id=3\n\
             ------- TRX HAS BEEN WAITING 21 SEC FOR THIS LOCK TO BE GRANTED:\n\
             RECORD LOCKS space id 2 page no 4 n bits 72 index PRIMARY of table `b`.`acc` trx id 2231 lock_mode X locks rec but not gap waiting\n"
        )
    };
    let said = answer(&status("(PREPARED) "));
    assert!(
        said.starts_with("prepared-xa-left: 1 transaction waits for rows of a prepared XA transaction"),
        "{said}"
    );
    let said = answer(&status(""));
    assert!(!said.contains("prepared-xa-left"), "it is rolled back: {said}");
}

#[test]
fn a_limit_of_files_or_threads_that_a_log_names_has_its_remedy() {
    let said = answer(
        "2024-05-06  9:11:01 0 [ERROR] Error in accept: Too many open files\n\
         2024-05-06  9:11:02 93 [ERROR] mysqld: Error on realpath() on './app/t.frm' (Error 24 \"Too many open files\")\n",
    );
    assert!(said.starts_with("statements-refused: ") && said.contains("LimitNOFILE"), "{said}");
    let said =
        answer("2024-05-06  9:11:02 0 [ERROR] Can't create thread to handle new connection(errno= 11)\n");
    assert!(said.starts_with("logins-refused: ") && said.contains("pids.max"), "{said}");
}

#[test]
fn an_applier_that_a_backup_holds_up_is_no_idle_server() {
    let head = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n";
    let said = answer(&format!(
        "{head}5\tsystem user\t\tNULL\tSleep\t1027\tWaiting for commit lock\tNULL\n\
         3076\troot\tlocalhost\tNULL\tSleep\t1027\t\tFLUSH TABLES WITH READ LOCK\n\
         1\tsystem user\t\tNULL\tSleep\t99999\twsrep aborter idle\tNULL\n"
    ));
    assert!(said.starts_with("global-lock-pileup: Connection 3076 "), "{said}");
    for (state, words) in [
        ("Waiting for TOI DDL", "on all nodes at once"),
        ("wsrep: committing write set (5576598347)", "appliers of this node"),
    ] {
        let said = answer(&format!(
            "{head}5\tsystem user\t\tNULL\tSleep\t2397\t{state}\tNULL\n6\tsystem user\t\tNULL\tSleep\t2397\t{state}\tNULL\n"
        ));
        assert!(said.starts_with("galera-flow-control: ") && said.contains(words), "{said}");
    }
    let said =
        answer(&format!("{head}5\tsystem user\t\tNULL\tSleep\t2397\twsrep: committed write set\tNULL\n"));
    assert!(!said.contains("galera-flow-control"), "{said}");
}

/// The fragment that is pasted most: one transaction that waits, and nothing of who has the lock.
#[test]
fn a_wait_for_a_row_without_its_holder_says_who_waits_for_what() {
    let waiter = "---TRANSACTION 2231, ACTIVE 21 sec starting index read\nmysql tables in use 1, locked 1\n\
        LOCK WAIT 2 lock struct(s), heap size 1128, 1 row lock(s)\n\
        MySQL thread id 23733, OS thread handle 1, query id 2 localhost app updating\nupdate stock set a = 1 where a = 2\n\
        ------- TRX HAS BEEN WAITING 20 SEC FOR THIS LOCK TO BE GRANTED:\n\
        RECORD LOCKS space id 2 page no 4 n bits 72 index PRIMARY of table `shop`.`stock` trx id 2231 lock_mode X locks rec but not gap waiting\n";
    let said = answer(waiter);
    let first = said.lines().next().unwrap();
    assert_eq!(
        first, "row-lock-pileup: 1 session waits for row locks on shop.stock, for up to 20 s",
        "{said}"
    );
    assert!(said.contains("connection 23733 for 20 s: update stock set a = ?"), "{said}");
    assert!(!said.contains("on average"), "{said}");
    let holder = "---TRANSACTION 2324, ACTIVE 618 sec\n3 lock struct(s), heap size 1128, 2 row lock(s), undo log entries 4\n";
    let said = answer(&format!("{waiter}{holder}"));
    assert!(
        said.contains(
            "transaction 2324, whose connection is not in what was given: open for 10 min 18 s, 2 rows locked"
        ),
        "{said}"
    );
}

#[test]
fn what_a_lock_of_the_server_waits_for_is_named_and_times_that_were_not_given_are_not_said() {
    let said = answer(
        "Id\tUser\tState\tInfo\n18\troot\tWaiting for global read lock\tflush table with read lock\n\
         3\tapp\tUser sleep\tselect sleep(1000) from baguait1 for update\n",
    );
    let first = said.lines().next().unwrap();
    assert!(first.contains("has waited to lock the whole server, most likely for connection 3"), "{said}");
    assert!(said.contains("KILL QUERY 3\n"), "{said}");
}

#[test]
fn a_list_says_which_statement_most_run_and_one_that_has_just_begun_is_no_finding() {
    let list = |seconds: u32| {
        let rows: String = (10..13)
            .map(|id| format!("{id}\tapp\th:1\tshop\tQuery\t{seconds}\tCreating sort index\tSELECT * FROM a ORDER BY b LIMIT {id}, 9\n"))
            .collect();
        format!(
            "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n{rows}4\tapp\th:1\tshop\tSleep\t90\t\tNULL\n"
        )
    };
    let said = answer(&list(721));
    assert!(said.contains("3 run SELECT * FROM a ORDER BY b LIMIT"), "{said}");
    assert!(said.contains("for up to 12 min 1 s (connections 10, 11, 12)"), "{said}");
    assert_eq!(answer(&list(0)), "");
}

#[test]
fn a_disk_that_is_full_of_a_temporary_table_is_not_said_to_stop_commits() {
    let of = |file: &str| {
        answer(&format!(
            "2024-06-02  9:11:01 88 [ERROR] mysqld: Disk is full writing '{file}' (Errcode: 28 \"No space left on device\"). Waiting for someone \
             to free space... (Expect up to 60 secs delay for server to continue after freeing disk space)\n"
        ))
    };
    let said = of("/tmp/#sql_84e_2.MAI");
    assert!(said.contains("The file system of temporary tables is full (/tmp/#sql_84e_2.MAI)"), "{said}");
    let said = of("./binlog.000812");
    assert!(said.contains("The file system of ./binlog.000812 is full: the server waits"), "{said}");
}

/// What `performance_schema.data_lock_waits` and `sys.schema_table_lock_waits` say of the holder, and no more.
#[test]
fn a_list_that_names_the_holder_names_it_in_the_answer() {
    let said = answer(
        "*************************** 1. row ***************************\n                          ENGINE: INNODB\n\
         REQUESTING_ENGINE_TRANSACTION_ID: 5142\n            REQUESTING_THREAD_ID: 47\nBLOCKING_ENGINE_TRANSACTION_ID: 5132\n  \
         BLOCKING_THREAD_ID: 46\n",
    );
    assert!(said.contains("row-lock-pileup") && said.contains("has the lock \"transaction 5132\""), "{said}");
    let said = answer(
        "| object_schema | object_name | waiting_pid | waiting_query | waiting_query_secs | blocking_pid |\n\
         | shop | stock | 34118 | ALTER TABLE stock ADD c INT | 179 | 34123 |\n\
         | shop | stock | 34119 | SELECT * FROM stock | 170 | 34118 |\n",
    );
    assert!(said.starts_with("metadata-lock-pileup: Connection 34123 "), "{said}");
    assert!(said.contains("  KILL 34123\n") && said.contains("longest wait 179"), "{said}");
}

/// What programs print of a list is diagnosed as the client's own list is.
#[test]
fn a_list_that_python_or_a_program_printed_without_a_head_has_the_answer_of_the_client_s() {
    let client = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n\
        11\tapp\th:1\tshop\tSleep\t90\t\tNULL\n\
        12\tapp\th:2\tshop\tQuery\t41\tWaiting for table metadata lock\tALTER TABLE stock ADD c INT\n\
        13\tapp\th:3\tshop\tQuery\t40\tWaiting for table metadata lock\tSELECT a, b FROM stock WHERE c = 'x'\n";
    let wanted = answer(client);
    assert!(wanted.starts_with("metadata-lock-pileup: "), "{wanted}");
    let cells = || client.lines().skip(1).map(|line| line.split('\t').collect::<Vec<_>>());
    let names: Vec<&str> = client.lines().next().expect("a head").split('\t').collect();
    let python = |cell: &str| match cell {
        "NULL" => "None".to_owned(),
        number if number.parse::<u64>().is_ok() => number.to_owned(),
        text => format!("'{}'", text.replace('\'', "\\'")),
    };
    let tuple =
        |cells: Vec<&str>| format!("({})", cells.into_iter().map(python).collect::<Vec<_>>().join(", "));
    let dict = |cells: Vec<&str>| {
        let pairs = names.iter().zip(cells).map(|(name, cell)| format!("'{name}': {}", python(cell)));
        format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
    };
    let quoted = |cells: Vec<&str>| {
        cells
            .into_iter()
            .map(|cell| format!("\"{cell}\"").replace("\"NULL\"", "\\N"))
            .collect::<Vec<_>>()
            .join(",")
    };
    let joined = |rows: Vec<String>, mark: &str| rows.join(mark);
    for list in [
        format!("[{}]\n", joined(cells().map(tuple).collect(), ", ")),
        format!(">>> cur.fetchall()\n[{}]\n", joined(cells().map(dict).collect(), ",\n ")),
        joined(cells().map(tuple).collect(), "\n"),
        joined(cells().map(quoted).collect(), "\n"),
        joined(cells().map(|cells| cells.join(",")).collect(), "\n"),
        joined(cells().map(|cells| cells.join("\t")).collect(), "\n"),
    ] {
        assert_eq!(answer(&format!("{list}\n")), wanted, "{list}");
    }
}

/// The names that the manual's query of lock waits gives have blanks.
#[test]
fn a_list_of_lock_waits_whose_names_have_blanks_names_who_has_the_lock() {
    let list = "+----------------+----------------+---------------+-----------------+-----------------+----------------+\n\
        | waiting trx id | waiting thread | waiting query | wait age | blocking trx id | blocking thread | blocking query |\n\
        +----------------+----------------+---------------+-----------------+-----------------+----------------+\n\
        | 4412 | 88 | UPDATE stock SET n = n - 1 WHERE id = 5 | 00:00:19 | 4400 | 71 | NULL |\n\
        | 4413 | 89 | UPDATE stock SET n = n - 1 WHERE id = 5 | 00:00:19 | 4400 | 71 | NULL |\n\
        +----------------+----------------+---------------+-----------------+-----------------+----------------+\n\
        2 rows in set (0.00 sec)\n";
    let wanted = answer(
        &list
            .replace("waiting ", "waiting_")
            .replace("blocking ", "blocking_")
            .replace("trx id", "trx_id")
            .replace("wait age", "wait_age"),
    );
    let said = answer(list);
    assert!(said.starts_with("row-lock-pileup: ") && said.contains("  KILL 71\n"), "{said}");
    assert_eq!(said, wanted);
    let python = "[{'waiting trx id': 4412, 'waiting thread': 88, 'waiting query': 'UPDATE stock SET n = n - 1 WHERE id = 5', 'wait age': datetime.timedelta(seconds=19), \
        'blocking trx id': 4400, 'blocking thread': 71, 'blocking query': None}]\n";
    let said = answer(python);
    assert!(said.starts_with("row-lock-pileup: ") && said.contains("  KILL 71\n"), "{said}");
}

#[test]
fn a_wait_that_a_list_has_no_word_for_is_not_said_to_be_absent() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("list");
    let mut list = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n".to_owned();
    for id in 7..19 {
        list += &format!("{id}\tapp\tweb\tshop\tQuery\t4\tupdate\tINSERT INTO orders VALUES ({id})\n");
    }
    fs::write(&file, list).expect("a file");
    let (json, _) = printed(&format!("doctor --json --fail-on never --from {}", file.display()));
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let clear: Vec<&str> =
        json["clear"].as_array().expect("a list").iter().filter_map(|cause| cause.as_str()).collect();
    for hidden in ["free-page-wait", "write-io-bound", "read-io-bound", "auto-increment-lock"] {
        assert!(!clear.contains(&hidden), "{hidden} may be what they wait for: {clear:?}");
    }
    for shown in ["user-lock-pileup", "global-lock-pileup", "semi-sync-wait"] {
        assert!(clear.contains(&shown), "{shown} has a state: {clear:?}");
    }
}

/// The documents of a capture as a report lists them: what each is, and what is said of it.
fn given(capture: &str) -> Vec<(String, Vec<String>)> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("capture");
    fs::write(&file, capture).expect("a file is written");
    let (json, code) = printed(&format!("doctor --json --fail-on never --from {}", file.display()));
    assert_eq!(code, 0, "{json}");
    let json: serde_json::Value = serde_json::from_str(&json).expect("an answer in JSON");
    let documents = json["given"].as_array().expect("a list").iter();
    let says = |document: &serde_json::Value| -> Vec<String> {
        let says = document["says"].as_array().into_iter().flatten();
        says.map(|said| said.as_str().unwrap_or_default().to_owned()).collect()
    };
    documents
        .map(|document| (document["kind"].as_str().unwrap_or_default().to_owned(), says(document)))
        .collect()
}

/// No rule rests on them: their sentences are what a reader gets.
#[test]
fn plans_and_files_of_other_programs_are_named_and_their_values_are_not_shown() {
    let plan = "*************************** 1. row ***************************\nANALYZE: {\n  \"query_block\": {\n    \"r_loops\": 1,\n    \
                \"r_total_time_ms\": 4000,\n    \"table\": {\n      \"table_name\": \"o\",\n      \"access_type\": \"ALL\",\n      \
                \"r_loops\": 1,\n      \"rows\": 200,\n      \"r_rows\": 900000,\n      \"r_table_time_ms\": 3000,\n      \
                \"r_other_time_ms\": 600,\n      \"attached_condition\": \"o.name = 'hidden'\"\n    }\n  }\n}\n1 row in set (4.00 sec)\n";
    let environment = "APP_NAME=shop\nDB_HOST=10.0.0.4\nDB_USERNAME=app\nDB_PASSWORD=hidden\n";
    let documents = given(&format!("{plan}\n{environment}"));
    let kinds: Vec<&str> = documents.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["plan of a statement", "file of another program"], "{documents:?}");
    let says = &documents[0].1;
    assert!(says[1].starts_with("90 % of the time: Table scan on o"), "{says:?}");
    assert!(documents[1].1[0].ends_with("nothing in it is used"), "{documents:?}");
    assert!(!format!("{documents:?}").contains("hidden"), "{documents:?}");
}

#[test]
fn what_a_security_module_refused_is_why_a_server_may_not_start() {
    let said = answer(
        "Mar 12 03:10:11 db1 kernel: [ 81.2] audit: type=1400 audit(1710213011.100:41): apparmor=\"DENIED\" operation=\"open\" \
         profile=\"/usr/sbin/mysqld\" name=\"/data/ibdata1\" pid=811 comm=\"mysqld\" requested_mask=\"rw\" denied_mask=\"rw\"\n",
    );
    assert!(said.starts_with("server-stopped: The server may not start: it cannot open a file"), "{said}");
    assert!(said.contains("dmesg | grep DENIED") && said.contains("/data/ibdata1"), "{said}");
}

#[test]
fn the_list_of_mysqladmin_debug_says_who_has_the_lock_that_others_wait_for() {
    let log = "\nStatus information:\n\nCurrent dir: /var/lib/mysql/\nRunning threads: 4  Stack size: 262144\n\n\
               Thread database.table_name          Locked/Waiting        Lock_type\n\n\
               7       shop.stock                  Locked - read         Read lock without concurrent inserts\n\
               8       shop.stock                  Waiting - write       High priority write lock\n\n\n";
    let list = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n7\tapp\th:1\tshop\tSleep\t95\t\tNULL\n\
                8\tapp\th:2\tshop\tQuery\t90\tWaiting for table level lock\tUPDATE stock SET n = 1\n";
    let said = answer(&format!("{log}\n{list}"));
    assert!(said.contains("table-lock-pileup") && said.contains("connection 7 "), "{said}");
    assert!(said.contains("  KILL 7\n"), "{said}");
    let documents = given(log);
    assert_eq!(documents[0].0, "status by mysqladmin debug", "{documents:?}");
    assert!(
        documents[0].1[2].contains("connection 7 has a read lock on it, and connection 8 waits"),
        "{documents:?}"
    );
}

#[test]
fn the_lag_that_pt_heartbeat_prints_is_that_of_a_replica() {
    let lines: String = (90..110).map(|s| format!("{s}.00s [ 95.10s, 80.00s, 41.30s ]\n")).collect();
    let said = answer(&lines);
    let first = "replica-lag: The replica is 2 min behind its source, 1.0 s more each second\n";
    assert!(said.starts_with(first), "{said}");
}
