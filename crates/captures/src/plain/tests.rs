use super::*;

/// A part of a status in which nothing is damaged.
pub(crate) const PLAIN: &str = "--Thread 140406675191552 has waited at row0purge.cc line 862 for 18.00 seconds the semaphore:\n\
                         S-lock on RW-latch at 0x3ca8738 created in file dict0dict.cc line 1183\n\
                         a writer (thread id 140406373218048) has reserved it in mode  exclusive\n\
                         number of readers 0, waiters flag 1, lock_word: 0\n\
                         ------------\nTRANSACTIONS\n------------\n\
                         ---TRANSACTION 421, not started\n";

#[test]
fn what_is_in_order_stays_as_it_is() {
    assert_eq!(undamaged(PLAIN), PLAIN);
}

#[test]
fn every_prefix_is_taken_away() {
    for prefix in ["> ", ">> ", "    ", "\t", "db-1  | ", "Feb 12 09:52:22 db1 mysqld[4711]: ", "# ", "12: "]
    {
        let damaged: String = PLAIN.lines().map(|line| format!("{prefix}{line}\n")).collect();
        assert_eq!(undamaged(&damaged), PLAIN, "{prefix}");
        let trimmed: String = damaged.lines().map(|line| format!("{}\n", line.trim_end())).collect();
        assert_eq!(undamaged(&trimmed), PLAIN, "{prefix}");
    }
}

#[test]
fn the_name_of_a_container_is_taken_away_where_a_page_indented_it_or_somebody_wrote_around_it() {
    let line = "mysqld: Can't create/write to file '/d/a' (Errcode: 13 - Permission denied)";
    let abort = "2024-03-04T10:11:12.123456Z 0 [ERROR] Aborting";
    for text in [
        format!("    db_1         | {line}\n    db_1         | {abort}\n"),
        format!("What is this?\n\ndb_1  | {line}\ndb_1  | {abort}\n\nThanks\n"),
    ] {
        let plain = undamaged(&text);
        assert!(plain.lines().any(|plain| plain == line), "{plain}");
    }
    let prose = format!("One.\nTwo.\nThree.\ndb_1 | {line}\ndb_1 | {abort}\n");
    assert!(matches!(without_container(&prose), Cow::Borrowed(_)));
}

#[test]
fn a_log_that_a_letter_quotes_or_indents_beside_much_else_is_read() {
    let letter = "Hello,\nour server has had this\nsince it was moved.\nNothing was changed.\n\n";
    for line in [
        "InnoDB: ERROR: the age of the last checkpoint is 9433946,",
        "[ERROR] [MY-013132] [Server] The table 'heartbeat' is full!",
        "2016-03-28 01:18:40:InnoDB: mmap(137363456 bytes) failed; errno 12",
        "error    : Corrupt",
    ] {
        for before in ["> ", "    ", "\t", "> > ", "db_1   | ", "> db_1   | "] {
            let plain = undamaged(&format!("{letter}{before}{line}\n\nWhat is it?\nThanks,\nPat\n"));
            assert!(plain.lines().any(|plain| plain == line), "{before}: {plain}");
        }
    }
    let prose = format!("{letter}    > we asked\n    and waited\n");
    assert_eq!(undamaged(&prose), prose);
}

#[test]
fn a_slow_log_that_a_page_indented_loses_its_indentation() {
    let log = "# User@Host: app[app] @ localhost []\n# Thread_id: 22  Schema: shop\n# Query_time: 12.1  Lock_time: 0.1  Rows_sent: 1  \
                   Rows_examined: 4123456\nSET timestamp=1626884656;\nSELECT a FROM b;\n";
    for prefix in ["            ", "\t", "> "] {
        let damaged: String = log.lines().map(|line| format!("{prefix}{line}\n")).collect();
        assert_eq!(undamaged(&damaged), log, "{prefix}");
    }
}

#[test]
fn a_table_with_one_line_that_is_known_loses_its_prefix_too() {
    let list = "| Id | User | Info |\n|  7 | app | DO 1 |\n";
    for prefix in ["> ", "    ", "> > "] {
        let damaged: String = list.lines().map(|line| format!("{prefix}{line}\n")).collect();
        assert_eq!(undamaged(&damaged), list, "{prefix}");
    }
}

#[test]
fn a_blog_and_a_string_give_the_text_back() {
    let blog = PLAIN.replace("---TRANSACTION", "&#8212;TRANSACTION").replace("--Thread", "&#8211;Thread");
    assert_eq!(undamaged(&blog), PLAIN);
    assert_eq!(
        undamaged(&PLAIN.replace("---TRANSACTION", "\u{2014}TRANSACTION").replace(':', "\u{ff1a}")),
        PLAIN
    );
    let string = PLAIN.replace('\n', "\\n");
    assert_eq!(undamaged(&string), PLAIN.to_owned() + "\n");
    assert_eq!(undamaged(&format!("<pre>{}</pre>", PLAIN.replace('<', "&lt;"))).trim_end(), PLAIN.trim_end());
}

#[test]
fn a_report_of_perf_that_an_editor_escaped_is_plain_again() {
    let report = "  5.84%  mysqld   mysqld   \\[.\\] rec\\_get\\_offsets\\_func\n";
    assert_eq!(undamaged(report), "  5.84%  mysqld   mysqld   [.] rec_get_offsets_func\n");
}

#[test]
fn an_answered_letter_has_several_levels() {
    let list = "Id\tUser\tInfo\n7\tapp\tDO 1\n8\tapp\tDO 2\n";
    let quoted: String = list.lines().map(|line| format!(">> {line}\n")).collect();
    let letter = undamaged(&format!("> On Monday ops wrote:\n{quoted}> can you look?\nI can.\n"));
    assert!(letter.contains(list), "{letter}");
    assert!(letter.contains("\nI can.\n"), "{letter}");
}

#[test]
fn the_counts_of_a_pager_and_the_marks_of_a_list_are_taken_off_where_each_line_has_one() {
    let stack = "Thread 5 (LWP 4716):\n#0  0x0000003e90c0cbd0 in poll () from /lib64/libc.so.6\n\
                     #1  0x00000000008be2dd in vio_io_wait (vio=0x2) at /b/viosocket.c:9\n\
                     #2  0x00000000008be3dd in vio_read (vio=0x2)\n    at /b/viosocket.c:12\n\
                     #3  0x00000000008be4dd in my_net_read (net=0x2)\n    at /b/net_serv.cc:12\n\
                     #4  0x00000000008be5dd in do_command (thd=0x2) at /b/sql_parse.cc:1262\n";
    let counted = |parts: &str| -> String {
        stack.lines().zip(1..).map(|(line, at)| format!("{at:>6}{parts}{line}\n")).collect()
    };
    for text in [counted("\t"), counted("  "), counted(" ")] {
        assert_eq!(undamaged(&text), undamaged(stack), "{text}");
    }
    for mark in ["* ", "\u{2022} "] {
        let list: String = stack.lines().map(|line| format!("{mark}{line}\n")).collect();
        assert_eq!(undamaged(&list), undamaged(stack), "{mark}");
    }
    let thread = |at: u32| format!("{at:>3}  Thread 0x7f2a4c1e9740 (LWP {at}) main ()\n");
    let threads: String = (1..10).map(thread).collect();
    assert!(matches!(without_counts(&threads), Cow::Borrowed(_)));
    let others: String = (2..12).map(|at| format!("{at} app localhost shop\n")).collect();
    assert!(matches!(without_counts(&others), Cow::Borrowed(_)));
}

#[test]
fn a_page_with_an_empty_line_behind_each_is_closed_up_in_a_letter_too() {
    let rows: String = (1..9).map(|at| format!("00:0{at}:01     dev8-0   9.00\n\n")).collect();
    let letter = |rows: &str| format!("Hello all,\n\nit is slow.\nWe saw:\n\n{rows}What is it?\nThanks\n");
    let wanted = letter(&rows).replace("9.00\n\n", "9.00\n").replace("saw:\n\n", "saw:\n");
    assert_eq!(undamaged(&letter(&rows)), wanted);
    let few: String = rows.lines().take(12).map(|line| format!("{line}\n")).collect();
    assert_eq!(undamaged(&letter(&few)), letter(&few));
}

#[test]
fn the_mark_of_a_diff_is_taken_off_where_each_line_has_it() {
    let list = "+----+------+\n| Id | Info |\n+----+------+\n|  7 | DO 1 |\n|  8 | DO 2 |\n+----+------+\n";
    for mark in ["+", "-", "> "] {
        let diff: String = list.lines().map(|line| format!("{mark}{line}\n")).collect();
        assert_eq!(undamaged(&diff), list, "{mark}");
    }
    assert_eq!(undamaged(list), list);
    let options = "--key_buffer_size=1\n--port=2\n";
    assert_eq!(undamaged(options), options);
}

#[test]
fn lines_that_are_code_each_are_plain_again() {
    let list = "mysql> show processlist;\n+----+------------+\n| Id | Info       |\n+----+------------+\n|  7 | DO `a`.`b` |\n";
    let code = |before: &str| list.lines().map(|line| format!("{before}`{line}`\n")).collect::<String>();
    for before in ["- ", "* ", "", "  - "] {
        assert_eq!(undamaged(&code(before)), list, "{before}");
    }
    assert_eq!(undamaged(&format!("look\n{}", code("- "))), format!("look\n{list}"));
    let names = "* `Id`\n* `User`\n* `Info`\n";
    assert_eq!(undamaged(names), names);
}

#[test]
fn a_status_of_which_a_page_counts_the_lines_and_wrapped_some_is_without_the_counts() {
    let text = "Here is one:\n1 ------------------------\n2 LATEST DETECTED DEADLOCK\n3 ------------------------\n4 070913 11:14:21\n\
                5 *** (1) TRANSACTION:\n6 TRANSACTION 0 7, ACTIVE 2 sec, OS thread id 1141287232\nstarting index read\n\
                7 mysql tables in use 1, locked 1\n8 LOCK WAIT 4 lock struct(s), heap size 1216\n\
                9 MySQL thread id 11, query id 350 localhost app Updating\n10 UPDATE t SET a = 0\n\nWhat is that?\n";
    let plain = without_counts_of_status(text).unwrap();
    assert!(
        plain.starts_with("Here is one:\n------------------------\nLATEST DETECTED DEADLOCK\n"),
        "{plain}"
    );
    assert!(plain.contains("\nTRANSACTION 0 7, ACTIVE 2 sec, OS thread id 1141287232 starting index read\n"));
    assert!(plain.ends_with("\nUPDATE t SET a = 0\n\nWhat is that?\n"), "{plain}");
    let rows = "Id\tState\n1\ta\n2\tb\n3\tc\n4\td\n5\te\n6\tf\n7\tg\n8\th\n";
    assert_eq!(without_counts_of_status(rows), None);
    assert_eq!(without_counts_of_status(""), None);
}

#[test]
fn a_rule_that_a_log_prints_is_no_end_of_a_prefix() {
    for rule in ["=", "*", "-"] {
        let rule = rule.repeat(48);
        let view = |second: u32| {
            format!(
                "2024-03-04T10:11:{second}.100000Z 2 [Note] [MY-000000] [Galera] {rule}\nView:\n  status: non-primary\n\
                 2024-03-04T10:11:{second}.200000Z 0 [Note] [MY-000000] [Galera] Received NON-PRIMARY.\n"
            )
        };
        let log = [view(12), view(13)].concat();
        assert_eq!(undamaged(&log), log);
    }
}

#[test]
fn a_log_of_a_node_that_prints_its_providers_options_is_no_list_of_variables() {
    let time = |second: u32| format!("2024-03-04T10:11:{second}.100000Z 0");
    let start = |from: u32| {
        [
            format!("{} [System] [MY-010116] [Server] /usr/sbin/mysqld (mysqld 8.0.36-28.1) starting as process 7\n", time(from)),
            format!(
                "{} [Note] [MY-000000] [Galera] Passing config to GCS: base_dir = /d; base_host = 10.1.1.2; base_port = 4567; \
                 cert.log_conflicts = no; gcache.size = 128M; gcs.fc_limit = 100; pc.recovery = true; socket.checksum = 2;\n",
                time(from + 1)
            ),
            format!("{} [ERROR] [MY-000000] [WSREP-SST] {}\n", time(from + 2), "*".repeat(54)),
            format!(
                "{} [ERROR] [MY-000000] [WSREP-SST] Possible timeout in receiving first data from donor in gtid/keyring stage\n",
                time(from + 3)
            ),
            format!("{} [ERROR] [MY-000000] [WSREP] SST script aborted with error 32 (Broken pipe)\n", time(from + 4)),
        ]
        .concat()
    };
    let parts = crate::recognise("node.log", &[start(11), start(31)].concat());
    let kinds: Vec<crate::Kind> = parts.iter().map(|part| part.kind).collect();
    assert_eq!(kinds, [crate::Kind::ErrorLog], "{parts:?}");
    assert!(parts[0].says.iter().any(|said| said.contains("the donor sent nothing")), "{:?}", parts[0].says);
    let found = spindoctor_rules::diagnose(&crate::window(&parts)).findings;
    assert!(found[0].headline.starts_with("This node does not join its cluster"), "{found:#?}");
}
