//! Texts as people paste them: what is lost or added on the way costs no diagnosis. Texts with values of our own, in the forms in
//! which such texts stand in tickets, blogs and the logs of containers.

mod host;
mod stacks;

use spindoctor_model::Severity;

use crate::part::Kind;
use crate::{Part, recognise, window};

fn parts(text: &str) -> Vec<Part> {
    recognise("pasted", text)
}

/// The causes that are found, with their severities.
fn found(text: &str) -> Vec<(String, Severity)> {
    let parts = parts(text);
    assert!(parts.iter().any(|part| part.kind != Kind::Unknown), "nothing was recognised in {text}");
    let findings = spindoctor_rules::diagnose(&window(&parts)).findings;
    findings.into_iter().map(|finding| (finding.cause, finding.severity)).collect()
}

fn first(text: &str) -> String {
    found(text).first().unwrap_or_else(|| panic!("nothing was found in {text}")).0.clone()
}

#[test]
fn a_list_without_its_head_is_one() {
    let wide = "| 811 | shop | 10.0.0.7:4711 | shop | Sleep |  900 |  | NULL | 0 | 0 |\n\
                | 812 | shop | 10.0.0.7:4712 | shop | Query |  600 | Waiting for table metadata lock | ALTER TABLE a ADD b INT | 0 | 0 |\n\
                | 813 | shop | 10.0.0.7:4713 | shop | Query |  590 | Waiting for table metadata lock | SELECT * FROM a WHERE b = 'x|y' | 0 | 0 |\n";
    assert_eq!(first(wide), "metadata-lock-pileup");
    let narrow = "Query | 9 | User sleep | SELECT SLEEP(50) FROM a\nQuery | 6 | Waiting for table metadata lock | ALTER TABLE a ADD b INT\n\
                  Query | 4 | Waiting for table metadata lock | SELECT * FROM a\n";
    assert_eq!(first(narrow), "metadata-lock-pileup");
    let instrumented = "| 47 | thread/mysqlx/worker | BACKGROUND | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL |\n\
                        | 93 | thread/sql/one_connection | FOREGROUND | 71 | ops | db7 | NULL | Query | 718 | Waiting for commit lock | SET GLOBAL read_only = ON | NULL |\n";
    assert_eq!(first(instrumented), "global-lock-pileup");
}

#[test]
fn columns_that_somebody_left_out_are_missing_and_no_more() {
    let list = "| Id | ... | ... | db | ... | Time | State | Info | ... |\n|----|-----|-----|----|-----|------|-------|------|-----|\n\
                | 11 | ... | ... | m | ... | 1222 | Waiting for table metadata lock | INSERT INTO a | ... |\n\
                | 12 | ... | ... | m | ... | 1224 | Waiting for table metadata lock | ALTER TABLE a ADD INDEX ... | ... |\n\
                | ... | ... | ... | ... | ... | ... | ... | ... | ... |\n";
    assert_eq!(first(list), "metadata-lock-pileup");
}

#[test]
fn words_with_bars_between_are_no_list() {
    for text in
        ["Query | the | answer | now\n", "a | b | c | d\n1 | 2 | 3 | 4\n", "| Sleep | well | my | friend |\n"]
    {
        assert!(parts(text).iter().all(|part| part.kind == Kind::Unknown), "{text}");
    }
}

/// A deadlock as a status and a log print it.
const DEADLOCK: &str = "*** (1) TRANSACTION:\nTRANSACTION 7001, ACTIVE 49 sec starting index read\nmysql tables in use 1, locked 1\n\
                        LOCK WAIT 3 lock struct(s), heap size 320, 2 row lock(s)\n\
                        MySQL thread id 30, OS thread handle 140, query id 626 localhost app updating\nUPDATE a SET b = 1 WHERE id = 2\n\
                        *** (1) WAITING FOR THIS LOCK TO BE GRANTED:\n\
                        RECORD LOCKS space id 9 page no 16 n bits 72 index PRIMARY of table `m`.`a` trx id 7001 lock_mode X waiting\n\
                        *** (2) TRANSACTION:\nTRANSACTION 7002, ACTIVE 24 sec starting index read\nmysql tables in use 1, locked 1\n\
                        3 lock struct(s), heap size 320, 2 row lock(s)\n\
                        MySQL thread id 31, OS thread handle 141, query id 627 localhost app updating\nDELETE FROM c WHERE id = 1\n\
                        *** (2) HOLDS THE LOCK(S):\n\
                        RECORD LOCKS space id 9 page no 16 n bits 72 index PRIMARY of table `m`.`a` trx id 7002 lock_mode X\n\
                        *** WE ROLL BACK TRANSACTION (1)\n";

fn says_both_statements(text: &str) {
    let said: Vec<String> = parts(text).into_iter().flat_map(|part| part.says).collect();
    let both =
        |said: &String| said.contains("UPDATE a SET b = ?") && said.contains("DELETE FROM c WHERE id = ?");
    assert!(said.iter().any(both), "{said:?} of {text}");
}

#[test]
fn a_deadlock_alone_says_its_two_statements_in_every_form() {
    says_both_statements(DEADLOCK);
    let numbered: String =
        DEADLOCK.lines().zip(5..).map(|(line, at)| format!("    {at}. {line}\n")).collect();
    says_both_statements(&numbered);
    let apart = format!(
        "\\------------------------\n\nLATEST DETECTED DEADLOCK\n\n\\------------------------\n\n{}",
        DEADLOCK.replace('\n', "\n\n")
    );
    says_both_statements(&apart.replace("*** ", "\\*\\*\\* "));
}

#[test]
fn a_deadlock_in_a_log_is_a_note_with_its_statements() {
    let time = "2021-08-09T10:06:50.278182+08:00 31 [Note] InnoDB: ";
    let printed =
        DEADLOCK.replace("*** (", &format!("{time}*** (")).replace("*** WE", &format!("{time}*** WE"));
    let printed = printed.replace(":\nTRANSACTION", ":\n\nTRANSACTION");
    let log = format!("{time}Transactions deadlock detected, dumping detailed information.\n{printed}");
    says_both_statements(&log);
    assert_eq!(found(&log), [("deadlock-storm".to_owned(), Severity::Note)]);
}

#[test]
fn a_log_is_read_whatever_collected_it() {
    let log = "2021-10-18T10:06:51.797484Z 0 [Note] InnoDB: page_cleaner: 1000ms intended loop took 7691ms. The settings might not \
               be optimal. (flushed=102 and evicted=839, during the time.)\n";
    for before in [
        "",
        "db-1    | ",
        "Oct 18 10:06:51 db1 mysqld[4711]: ",
        "2021-10-18T10:06:51.800000001Z stderr F ",
        "> ",
        "mysql-0 mysql ",
    ] {
        let text = format!("web-1   | GET /cart 200\n{before}{log}web-1   | GET / 200\n");
        assert_eq!(first(&text), "free-page-wait", "{before}");
    }
}

#[test]
fn a_log_that_names_a_trouble_is_not_answered_with_nothing() {
    let line = |text: &str| format!("2021-10-18T10:06:51.797484Z 7 [Warning] InnoDB: {text}\n");
    let no_page = line(
        "Difficult to find free blocks in the buffer pool (336 search iterations)! 0 failed attempts to flush a page!",
    );
    assert_eq!(found(&no_page), [("free-page-wait".to_owned(), Severity::Warning)]);
    let suspended = line(
        "page_cleaner: 1000ms intended loop took 5966815ms. The settings might not be optimal. (flushed=0 and evicted=0)",
    );
    let suspended = suspended.replace("evicted=0)", "evicted=0, during the time.)");
    assert_eq!(found(&suspended), [("server-stopped".to_owned(), Severity::Note)]);
    let newer = line("Page cleaner took 5966815ms to flush 0 and evict 0 pages");
    assert_eq!(first(&newer), "server-stopped");
}

#[test]
fn waits_for_latches_that_stand_apart_are_all_read() {
    let wait = |thread: u64, holder: u64, latch: &str| {
        format!(
            "--Thread {thread} has waited at {latch}.c line 305 for 934.00 seconds the semaphore:\n\
             X-lock on RW-latch at 0x{holder:x} created in file {latch}.c line 178\n\
             a writer (thread id {holder}) has reserved it in mode  exclusive\nnumber of readers 0, waiters flag 1, lock_word: 0\n"
        )
    };
    let text = format!(
        "{}**the thread that has it:**\n---TRANSACTION 0, not started\nMySQL thread id 14, OS thread handle 0x7, query id 9 10.0.0.7 app\n\
         SELECT 1 FROM a\n**and does it wait?**\n{}",
        wait(71, 72, "dict0dict"),
        wait(72, 73, "btr0sea")
    );
    let parts = parts(&text);
    let window = window(&parts);
    let status = window.latest(|sample| &sample.server.innodb_status).expect("a status");
    assert_eq!(status.semaphores.waiters.len(), 2, "{text}");
    let statement =
        |wanted: &str| status.transactions.transactions.len() == 1 && !format!("{parts:?}").contains(wanted);
    assert!(statement("does it wait"), "{parts:?}");
}

#[test]
fn a_list_of_latches_is_ranked_and_not_refused() {
    let list = "| Type   | Name      | Status                         |\n| InnoDB | REDO_RSEG | spins=9,waits=1464,calls=4 |\n";
    let parts = parts(list);
    assert_eq!(parts[0].kind, Kind::Latches);
    assert!(parts[0].says[0].contains("REDO_RSEG 1464"), "{parts:?}");
}

#[test]
fn every_list_of_locks_names_who_waits_and_who_blocks() {
    let row = "*************************** 1. row ***************************\n";
    let of_tables = format!(
        "{row}               object_schema: shop\n                 object_name: orders\n           waiting_thread_id: 71\n\
         \x20                waiting_pid: 31\n             waiting_account: app@10.0.0.4\n           waiting_lock_type: EXCLUSIVE\n\
         \x20              waiting_query: ALTER TABLE orders ADD COLUMN note TEXT\n          waiting_query_secs: 205\n\
         \x20         blocking_thread_id: 69\n                blocking_pid: 29\n            blocking_account: report@10.0.0.9\n\
         \x20         blocking_lock_type: SHARED_READ\nsql_kill_blocking_connection: KILL 29\n"
    );
    let of_mariadb = "| THREAD_ID | LOCK_MODE | LOCK_DURATION | LOCK_TYPE | TABLE_SCHEMA | TABLE_NAME |\n\
                      | 29 | MDL_SHARED_READ | NULL | Table metadata lock | shop | orders |\n\
                      | Id | User | Host | db | Command | Time | State | Info |\n| 29 | report | h | shop | Sleep | 400 | | NULL |\n\
                      | 31 | app | h | shop | Query | 205 | Waiting for table metadata lock | ALTER TABLE orders ADD COLUMN a INT |\n";
    for text in [of_tables.as_str(), of_mariadb] {
        let findings = spindoctor_rules::diagnose(&window(&parts(text))).findings;
        assert_eq!(findings[0].cause, "metadata-lock-pileup", "{text}");
        let root = findings[0].root.as_ref().and_then(|root| root.connection_id);
        assert_eq!(root, Some(29), "{findings:#?}");
    }
    let of_rows = "| ENGINE | THREAD_ID | OBJECT_NAME | LOCK_TYPE | LOCK_MODE | LOCK_STATUS | LOCK_DATA |\n\
                   | INNODB | 69 | orders | RECORD | X,REC_NOT_GAP | GRANTED | 5 |\n\
                   | INNODB | 70 | orders | RECORD | X,REC_NOT_GAP | GRANTED | 6 |\n\
                   | INNODB | 71 | orders | RECORD | X,REC_NOT_GAP | WAITING | 5 |\n";
    assert_eq!(first(of_rows), "row-lock-pileup");
    // A list of transactions without their connections says nothing of who has none.
    let transactions = "| TRX_ID | TRX_STATE | trx_rows_locked |\n| 2291 | LOCK WAIT | 1 |\n| 2290 | LOCK WAIT | 1 |\n| 2288 | RUNNING | 5 |\n";
    assert_eq!(found(transactions).first().map(|(cause, _)| cause.as_str()), Some("row-lock-pileup"));
    let read = window(&parts(of_rows));
    let waits = read.latest(|sample| &sample.server.row_lock_waits).expect("waits");
    assert_eq!((waits.len(), waits[0].blocking_transaction.as_str()), (1, "thread 69"));
}

#[test]
fn names_and_values_without_their_head_are_a_list() {
    let list = "| wsrep_local_recv_queue_avg | 45.123 |\n| wsrep_flow_control_paused | 0.71 |\n| wsrep_cluster_status | Primary |\n";
    assert_eq!(parts(list)[0].kind, Kind::GlobalStatus);
    assert!(parts("| apple | 3 |\n| pear | 4 |\n").iter().all(|part| part.kind == Kind::Unknown));
}

#[test]
fn transactions_without_their_head_show_who_waits() {
    let rows = "| 34821 | LOCK WAIT | 2024-05-02 08:01:40 | 34821:2:4:3 | 2024-05-02 08:01:41 | 2 | 34 | UPDATE t SET a = 1 | starting index read | 1 | 1 | 2 | 1136 | 1 | 0 | 0 | REPEATABLE READ | 1 | 1 | NULL | 0 | 0 | 0 | 0 | 1 |\n\
                | 34820 | RUNNING | 2024-05-02 08:00:11 | NULL | NULL | 903 | 33 | NULL | NULL | 0 | 1 | 2 | 1136 | 900 | 1 | 0 | REPEATABLE READ | 1 | 1 | NULL | 0 | 0 | 0 | 0 | 1 |\n";
    assert_eq!(first(rows), "row-lock-pileup");
    let batch = rows.replace(" | ", "\t").replace("| ", "").replace(" |", "");
    assert_eq!(first(&batch), "row-lock-pileup");
}

#[test]
fn what_is_of_no_server_is_not_diagnosed_as_one() {
    let proxy = "4290 poll(libc.so.6),MySQL_Thread::run(MySQL_Thread.cpp:2833),start_thread(libpthread.so.0),clone(libc.so.6)\n\
                 1 pthread_cond_wait,ProxySQL_Admin::run(ProxySQL_Admin.cpp:71),start_thread(libpthread.so.0),clone(libc.so.6)\n";
    assert_eq!(found(proxy), []);
    let plugins = "binlog\tACTIVE\tSTORAGE ENGINE\tNULL\tGPL\nwsrep\tACTIVE\tSTORAGE ENGINE\tNULL\tGPL\n\
                   InnoDB\tACTIVE\tSTORAGE ENGINE\tNULL\tGPL\nINNODB_TRX\tACTIVE\tINFORMATION SCHEMA\tNULL\tGPL\n\
                   INNODB_LOCKS\tACTIVE\tINFORMATION SCHEMA\tNULL\tGPL\n";
    assert!(parts(plugins).iter().all(|part| part.kind == Kind::Unknown), "{:?}", parts(plugins));
    let service = "$ initctl status mysql-5.6\nmysql-5.6 respawn/post-start, process 4711\n\
                   [11.2] Memory cgroup out of memory: Kill process 4711 (mysqld) score 1001 or sacrifice child /x/y\n";
    assert!(parts(service).iter().all(|part| part.version.is_none()), "{:?}", parts(service));
    let df = "[root@db4 ~]# df -h\nFilesystem Size Used Avail Use% Mounted on\n/dev/mapper/vg_centos-lv_mysql\n145G 145G 5.7M 100% /vol/mysql\n";
    assert_eq!(first(df), "disk-full");
}

#[test]
fn the_head_of_a_slow_log_is_no_process_list() {
    let head = "mysqld, Version: 8.0.36 (Source distribution). started with:\nTcp port: 3306  Unix socket: /tmp/a.sock\n\
                Time                 Id Command    Argument\n2024-03-04T10:11:12.123456Z\t    7 Query\tSELECT 1\n";
    assert!(parts(head).iter().all(|part| part.kind != Kind::ProcessList), "{:?}", parts(head));
}

#[test]
fn a_post_with_a_list_a_tool_and_a_slow_log_is_three_documents() {
    let post = "Hi all, our shop hangs each hour.\n\n```\nmysql> show full processlist;\n\
                +------+------+------+---------+------+---------------------------------+-----------------------------+\n\
                | Id   | User | db   | Command | Time | State                           | Info                        |\n\
                +------+------+------+---------+------+---------------------------------+-----------------------------+\n\
                | 8123 | app  | shop | Query   |  341 | Waiting for table metadata lock | ALTER TABLE stock ADD c INT |\n\
                +------+------+------+---------+------+---------------------------------+-----------------------------+\n\
                1 row in set (0.00 sec)\n```\n\nAnd the slow log:\n\n# Time: 2023-03-04T10:11:12.123456Z\n\
                # User@Host: app[app] @ web3 [10.0.0.13]  Id:  8123\n\
                # Query_time: 50.0  Lock_time: 49.9 Rows_sent: 0  Rows_examined: 0\nSET timestamp=1677924672;\n\
                UPDATE stock SET n = n - 1 WHERE id = 7;\n\nThis is what free says, I have enough of it:\n\n\
                \x20             total        used        free      shared  buff/cache   available\n\
                Mem:          32011       31211         201           3         599         210\n\nThanks in advance\n";
    let read = parts(post);
    let kinds: Vec<Kind> = read.iter().map(|part| part.kind).collect();
    assert_eq!(kinds, [Kind::ProcessList, Kind::SlowLog, Kind::System], "{read:#?}");
    assert!(
        read[1].says[1].contains("UPDATE stock SET n = n - ? WHERE id = ?, 1 time"),
        "{:?}",
        read[1].says
    );
    assert!(!read[1].says[1].contains("free"), "{:?}", read[1].says);
    assert_eq!(first(post), "metadata-lock-pileup");
}

#[test]
fn a_fragment_of_a_replica_s_status_is_one() {
    let stopped = "Our replica does not go on:\n\n   Slave_IO_Running: Yes\n  Slave_SQL_Running: No\n     Last_SQL_Errno: 1062\n\
                   \x20    Last_SQL_Error: Could not execute Write_rows event on table shop.orders; Duplicate entry '7' for key\n\
                   'PRIMARY', Error_code: 1062\n  Seconds_Behind_Master: NULL\n\nAny idea?\n";
    let read = parts(stopped);
    assert_eq!(read[0].kind, Kind::ReplicaStatus, "{read:#?}");
    assert_eq!(first(stopped), "replica-lag");
    let window = window(&read);
    let channels = window.latest(|sample| &sample.server.replication).expect("a channel");
    assert_eq!((channels[0].applier_running.as_str(), channels[0].behind_s), ("No", None));
    assert!(channels[0].applier_error.ends_with("'PRIMARY', Error_code: 1062"), "{channels:?}");
    let newer = "Replica_IO_Running: Yes\nReplica_SQL_Running: Yes\nSeconds_Behind_Source: 81234\n";
    assert_eq!(first(newer), "replica-lag");
}

#[test]
fn a_list_of_deadlocks_of_the_toolkit_is_a_finding() {
    let list = "server ts thread txn_id txn_time user hostname ip db tbl idx lock_type lock_mode wait_hold victim query\n\
                db1 2023-03-04T10:11:12 8123 0 29 app web3  shop stock PRIMARY RECORD X w 1 UPDATE stock SET n = 1 WHERE id = 7\n\
                db1 2023-03-04T10:11:12 8124 0 19 app web4  shop stock PRIMARY RECORD X w 0 UPDATE stock SET n = 1 WHERE id = 9\n";
    assert_eq!(parts(list)[0].kind, Kind::Deadlocks);
    assert_eq!(first(list), "deadlock-storm");
}

#[test]
fn what_stands_in_a_terminal_s_page_is_read() {
    let page = "       Id      User         Host/IP         DB      Time    Cmd Query or State\n\
                \x20      --      ----         -------         --      ----    --- ----------\n\
                \x20    8123       app       10.0.0.13       shop       341  Query Waiting for table metadata lock\n\
                \x20    8124       app       10.0.0.13       shop       340  Query Waiting for table metadata lock\n";
    assert_eq!(first(page), "metadata-lock-pileup");
    let coloured = page.replace("8123", "\x1b[1;31m8123\x1b[0m");
    assert_eq!(first(&coloured), "metadata-lock-pileup");
    let threads = "* 1    Thread 0x7f2a4c1e9740 (LWP 4711) \"mysqld\" 0x00007f2a4b0a1c3d in poll () from /lib64/libc.so.6\n\
                   \x20 2    Thread 0x7f2a3c1e9700 (LWP 4712) \"mysqld\" 0x00007f2a4bfa1c3d in fsync () from /lib64/libc.so.6\n";
    let read = parts(threads);
    assert_eq!(read[0].kind, Kind::Stacks);
    assert!(read[0].says.iter().any(|said| said.contains("thread apply all bt")), "{:?}", read[0].says);
}

#[test]
fn lists_that_decide_nothing_are_said_and_not_refused() {
    let groups = "| GROUP_ID | CONNECTIONS | THREADS | ACTIVE_THREADS | STANDBY_THREADS | QUEUE_LENGTH | HAS_LISTENER | IS_STALLED |\n\
                  | 0 | 52 | 34 | 32 | 0 | 19 | 1 | 1 |\n";
    assert_eq!(parts(groups)[0].kind, Kind::ThreadPool);
    let star = "***************************";
    let log = format!(
        "{star} 1. row {star}\n             File: binlog.000123\n         Position: 812345\n     Binlog_Do_DB: \n"
    );
    let read = parts(&log);
    assert_eq!(
        (read[0].kind, read[0].says.as_slice()),
        (Kind::BinaryLog, ["the server writes binlog.000123, at 812345".to_owned()].as_slice())
    );
}

/// A page or a chat that made blanks of the line ends.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ") + "\n"
}

#[test]
fn what_lost_its_line_ends_is_what_it_was() {
    let border = "+----+------+---------------------------------+-----------------------------+\n";
    let list = format!(
        "mysql> show full processlist;\n{border}| Id | Time | State | Info |\n{border}| 1 | 1653 | | NULL |\n\
         | 2 | 0 | NULL | show full processlist |\n| 3 | 18012 | Waiting for table metadata lock | alter table t1 rename to t2 |\n\
         | 4 | 17983 | Waiting for table metadata lock | select * from t1 |\n{border}4 rows in set (0.00 sec)\n"
    );
    assert_eq!(first(&list), "metadata-lock-pileup");
    assert_eq!(found(&in_one_line(&list)), found(&list));
    let stacks: String = (2..9)
        .map(|thread| {
            format!(
                "Thread {thread} (Thread 0x7fbb0d42b70{thread} (LWP 2017{thread})):\n#0  0x00007fbfae164c73 in select () from /lib64/libc.so.6\n\
                 #1  0x0000000000987c0f in os_thread_sleep (tm=<optimized out>) at /src/os0thread.cc:287\n\
                 #2  0x00000000009e4dea in srv_conc_enter_innodb_with_atomics (trx=trx@entry=0x7fba4802f9c8) at /src/srv0conc.cc:276\n\
                 #3  srv_conc_enter_innodb (trx=0x7fba4802f9c8) at /src/srv0conc.cc:511\n#4  0x0000000000641e72 in do_command ()\n"
            )
        })
        .collect();
    assert_eq!(first(&stacks), "concurrency-queue");
    assert_eq!(found(&in_one_line(&stacks)), found(&stacks));
    says_both_statements(&in_one_line(DEADLOCK));
}

#[test]
fn a_long_line_with_numbers_and_bars_is_a_line() {
    let report = "We had #1 and #2 of these, one after the other, and #3 | #4 | #5 later on; TRANSACTION 7 was one of those in which \
                  +--+ stood, and 3 lock struct(s), heap size 1 (no more than that) were written below each of them, as ever.\n";
    assert!(parts(report).iter().all(|part| part.kind == Kind::Unknown), "{:?}", parts(report));
}

#[test]
fn a_list_whose_tabs_are_blanks_is_one() {
    let list = "Id User Host db Command Time State Info\n\
                101 app 10.0.0.1:5123 shop Query 45 Waiting for table metadata lock SELECT * FROM orders WHERE id = 5\n\
                102 app 10.0.0.1:5124 shop Query 44 Waiting for table metadata lock UPDATE orders SET a = 1 WHERE id = 5\n\
                103 root localhost shop Query 46 Waiting for table metadata lock ALTER TABLE orders ADD COLUMN x INT\n\
                104 app 10.0.0.1:5125 shop Sleep 900 NULL\n105 app 10.0.0.1:5126 NULL Sleep 12 NULL\n";
    assert_eq!(first(list), "metadata-lock-pileup");
    let (_, rows) = list.split_once('\n').unwrap();
    assert_eq!(found(rows), found(list));
    let aligned = list.replace(' ', "   ");
    assert_eq!(
        first(&aligned.replace("Waiting   for   table   metadata   lock", "Waiting for table metadata lock")),
        "metadata-lock-pileup"
    );
}

/// A process list of these rows: number, command, time, state, statement.
fn list(rows: &[(u64, &str, u64, &str, &str)]) -> String {
    let mut text = "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n".to_owned();
    for (id, command, time, state, statement) in rows {
        text.push_str(&format!("{id}\tapp\t10.0.0.1:5\tshop\t{command}\t{time}\t{state}\t{statement}\n"));
    }
    text
}

/// The first finding's remedies, one below the other.
fn remedies(text: &str) -> String {
    let window = window(&parts(text));
    let finding = spindoctor_rules::diagnose(&window).findings.into_iter().next().expect("a finding");
    finding.remedies.into_iter().map(|remedy| remedy.statement + "\n").collect()
}

#[test]
fn a_dump_at_work_is_the_likely_holder_of_the_whole_server() {
    let mut rows = vec![(7, "Query", 4, "Sending data", "SELECT /*!40001 SQL_NO_CACHE */ `id` FROM `lines`")];
    rows.extend((20..30).map(|id| (id, "Query", 900, "Waiting for backup lock", "UPDATE stock SET n = 1")));
    assert_eq!(found(&list(&rows))[0].0, "global-lock-pileup");
    assert!(remedies(&list(&rows)).starts_with("KILL 7\n"), "{}", remedies(&list(&rows)));
}

#[test]
fn a_switch_to_read_only_in_a_ring_with_workers_is_what_is_ended() {
    let rows = [
        (7, "Query", 700, "Waiting for commit lock", "set global read_only=on"),
        (8, "Query", 600, "Waiting for commit lock", "set global read_only=on"),
        (20, "Query", 900, "Waiting for global read lock", "NULL"),
        (21, "Query", 900, "Waiting for preceding transaction to commit", "NULL"),
    ];
    assert!(remedies(&list(&rows)).contains("KILL 7; KILL 8\n"), "{}", remedies(&list(&rows)));
    assert!(!remedies(&list(&rows)).contains("UNLOCK TABLES"));
}

#[test]
fn a_table_that_was_locked_before_the_ddl_came_is_not_freed_by_its_end() {
    let wait = "Waiting for table metadata lock";
    let mut rows = vec![(8, "Query", 46, wait, "ALTER TABLE orders ADD n INT")];
    rows.extend((20..30).map(|id| (id, "Query", 47, wait, "SELECT id FROM orders")));
    rows.extend((40..43).map(|id| (id, "Sleep", 50, "", "NULL")));
    let first = remedies(&list(&rows));
    assert!(!first.contains("KILL 8"), "{first}");
    rows[0].2 = 48;
    assert!(remedies(&list(&rows)).contains("KILL 8"), "the DDL came first");
}

#[test]
fn long_lists_in_the_optimizer_are_named_and_short_ones_are_not() {
    let values = |count: u32| (0..count).map(|value| value.to_string()).collect::<Vec<_>>().join(",");
    let crowd = |count: u32| {
        let statement = format!("SELECT a FROM posts WHERE author IN ({})", values(count));
        list(&(20..30).map(|id| (id, "Query", 9, "statistics", statement.as_str())).collect::<Vec<_>>())
    };
    assert_eq!(found(&crowd(60))[0].0, "index-dive-waste");
    assert!(found(&crowd(3)).iter().all(|(cause, _)| cause != "index-dive-waste"));
}

#[test]
fn stacks_of_one_thread_do_not_hide_a_long_list() {
    let rows: Vec<_> =
        (20..32).map(|id| (id, "Query", 9, "Waiting for global read lock", "UPDATE a SET b = 1")).collect();
    let stack = "#0  pthread_cond_timedwait\n#1  inline_mysql_cond_timedwait\n#2  MDL_wait::timed_wait\n#3  dispatch_command\n#4  do_command\n";
    assert_eq!(found(&format!("{}\n{stack}", list(&rows)))[0].0, "global-lock-pileup");
}

#[test]
fn options_and_a_frame_without_borders_below_lines_of_a_log_are_read() {
    let kinds = |text: &str| parts(text).iter().map(|part| part.kind).collect::<Vec<_>>();
    let options = "[2006013.230723] mysqld invoked oom-killer: gfp_mask=0x201da, order=0, oom_adj=0\n\nThe server has these:\n\n\
                   innodb_buffer_pool_size        = 48G\ninnodb_additional_mem_pool_size = 512M\ninnodb_log_buffer_size = 64M\n\n\
                   Nothing else runs there.\n";
    assert_eq!(kinds(options), [Kind::ErrorLog, Kind::OptionFile]);
    let frame = "160723 18:36:02  InnoDB: ERROR: the age of the last checkpoint is 9433856,\nInnoDB: which exceeds the log group capacity 9433498.\n\n\
                 We have\n\n| Variable_name | Value |\n\n| innodb_log_file_size | 50331648 |\n\n| innodb_log_files_in_group | 2 |\n";
    assert_eq!(kinds(frame), [Kind::ErrorLog, Kind::GlobalVariables]);
    // What a server prints of itself when it crashes is no option file.
    let crash = "240304 10:11:12 [ERROR] mysqld got signal 11 ;\nkey_buffer_size=8388608\nread_buffer_size=131072\n\
                 max_used_connections=2\nmax_threads=151\nthread_count=1\nIt is possible that mysqld could use up to\n";
    assert_eq!(kinds(crash), [Kind::ErrorLog]);
}

#[test]
fn the_error_of_a_replica_without_the_rest_of_its_status_says_what_has_stopped() {
    let headline = |text: &str| {
        let findings = spindoctor_rules::diagnose(&window(&parts(text))).findings;
        findings.into_iter().find(|finding| finding.cause == "replica-lag").map(|finding| finding.headline)
    };
    let applier = "Last_SQL_Error: Could not execute Write_rows event on table shop.stock; Duplicate entry '7' for key 'PRIMARY', Error_code: 1062; handler \
                   error HA_ERR_FOUND_DUPP_KEY\n";
    let stopped = "The applier has stopped with error 1062 (table shop.stock, key PRIMARY): the replica of its source applies nothing";
    assert_eq!(headline(applier).as_deref(), Some(stopped));
    let both = format!("It says\n\n     Last_Errno: 1062\n     {}\nWhat now?\n", applier.replace("_SQL", ""));
    assert_eq!(headline(&both).as_deref(), Some(stopped), "{both}");
    let receiver = "I cannot go on with the replica:\n\n   Last_IO_Errno: 1236\n   Last_IO_Error: Got fatal error 1236 from master when reading data from \
                    binary log: 'Could not find first log file name in binary log index file'\n";
    let said = headline(receiver).unwrap_or_default();
    assert!(said.starts_with("The receiver does not run because of error 1236"), "{said}");
    assert_eq!(headline("Last_SQL_Errno: 0\nLast_SQL_Error:\n"), None);
}
