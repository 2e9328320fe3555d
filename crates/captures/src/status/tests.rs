use super::*;

fn transaction(id: u32, says: &str, locks: &[(&str, u32)]) -> String {
    let mut text = format!(
        "---TRANSACTION {id}, ACTIVE {} sec\n{says}3 lock struct(s), heap size 1136, 2 row lock(s)\n\
         MySQL thread id {id}, OS thread handle 1{id}, query id 9 10.2.0.8 app updating\nUPDATE a SET b = 1\n",
        100 - id
    );
    for (mode, record) in locks {
        if mode.ends_with(" waiting") {
            text.push_str("------- TRX HAS BEEN WAITING 9 SEC FOR THIS LOCK TO BE GRANTED:\n");
        }
        text.push_str(&format!(
            "RECORD LOCKS space id 58 page no 3 n bits 72 index PRIMARY of table `s`.`a` trx id {id} lock_mode {mode}\n\
             Record lock, heap no {record} PHYSICAL RECORD: n_fields 5; compact format; info bits 0\n \
             0: len 4; hex 8000002a; asc    *;;\n"
        ));
    }
    text
}

fn pairs(transactions: &[String]) -> Vec<(Option<u64>, Option<u64>)> {
    let text = format!(
        "------------\nTRANSACTIONS\n------------\nTrx id counter 100\n{}--------\nFILE I/O\n--------\n",
        transactions.concat()
    );
    let waits = read(&text).unwrap().waits;
    waits.iter().map(|wait| (wait.waiting_connection_id, wait.blocking_connection_id)).collect()
}

#[test]
fn a_list_of_transactions_has_an_end() {
    let transaction = |at: usize| {
        format!(
            "---TRANSACTION {at}, not started\nMySQL thread id {at}, OS thread handle 1, query id 1 localhost root\n"
        )
    };
    let list: String = (0..MOST_ENTRIES + 50).map(transaction).collect();
    let read =
        read(&format!("------------\nTRANSACTIONS\n------------\nTrx id counter 100\n{list}")).unwrap();
    assert_eq!(read.threads.len(), MOST_ENTRIES);
}

#[test]
fn of_a_page_the_record_says_who_blocks_whom() {
    let chain = [
        transaction(7, "LOCK WAIT ", &[("X locks rec but not gap waiting", 43)]),
        transaction(
            6,
            "LOCK WAIT ",
            &[
                ("X locks rec but not gap waiting", 42),
                ("X locks rec but not gap", 43),
                ("X locks rec but not gap waiting", 42),
            ],
        ),
        transaction(
            5,
            "LOCK WAIT ",
            &[("X locks rec but not gap waiting", 41), ("X locks rec but not gap", 42)],
        ),
        transaction(4, "", &[("X locks rec but not gap", 41)]),
    ];
    assert_eq!(pairs(&chain), [(Some(7), Some(6)), (Some(6), Some(5)), (Some(5), Some(4))]);
}

#[test]
fn a_gap_is_in_the_way_of_inserts_alone() {
    let gap = ("X locks gap before rec", 9);
    let insert = transaction(7, "LOCK WAIT ", &[("X locks gap before rec insert intention waiting", 9)]);
    let row = transaction(7, "LOCK WAIT ", &[("X locks rec but not gap waiting", 9)]);
    let holders = [transaction(5, "", &[("X locks rec but not gap", 9)]), transaction(4, "", &[gap])];
    assert_eq!(pairs(&[&[insert][..], &holders].concat()), [(Some(7), Some(4))]);
    assert_eq!(pairs(&[&[row][..], &holders].concat()), [(Some(7), Some(5))]);
}

#[test]
fn a_wait_whose_transaction_lost_its_first_lines_is_one() {
    let whole = format!(
        "{}------------------\n{}",
        transaction(7, "LOCK WAIT ", &[("X locks rec but not gap waiting", 43)]),
        transaction(5, "", &[])
    );
    let wait = |text: &str| {
        let waits = read(text).unwrap_or_default().waits;
        waits
            .iter()
            .map(|wait| (wait.waiting_connection_id, wait.blocking_connection_id, wait.waited_s))
            .collect::<Vec<_>>()
    };
    let from = |sign: &str| &whole[whole.find(sign).unwrap()..];
    assert_eq!(wait(from("MySQL thread id 7")), [(Some(7), Some(5), 9.0)]);
    assert_eq!(wait(from("------- TRX HAS")), [(None, Some(5), 9.0)]);
    assert_eq!(read(from("------- TRX HAS")).unwrap().waits[0].waiting_transaction, "7");
    // Nothing else of the list was pasted.
    let alone = from("MySQL thread id 7").split("------------------\n").next().unwrap();
    assert_eq!(wait(alone), [(Some(7), None, 9.0)]);
    let deadlock = "------------------------\nLATEST DETECTED DEADLOCK\n------------------------\n*** (1) TRANSACTION:\n\
                    MySQL thread id 9, query id 4 a b\nDELETE FROM a\n*** (1) WAITING FOR THIS LOCK TO BE GRANTED:\n\
                    RECORD LOCKS space id 58 page no 3 n bits 72 index PRIMARY of table `s`.`a` trx id 9 lock_mode X waiting\n";
    assert_eq!(wait(&format!("{deadlock}------------\nTRANSACTIONS\n------------\n")), []);
}

#[test]
fn who_waits_without_a_head_and_without_its_lock_is_not_lost() {
    let waiter = "LOCK WAIT 2 lock struct(s), heap size 376, 1 row lock(s)\nMySQL thread id 67, query id 9 10.0.0.7 app Updating\n\
                  UPDATE a SET b = 1\n";
    let holder = "---TRANSACTION 2EF7, ACTIVE 36 sec\n437 lock struct(s), heap size 47544, 508 row lock(s)\n\
                  MySQL thread id 83, query id 8 10.0.0.8 report\n";
    let states = |text: &str| -> Vec<(Option<u64>, String)> {
        read(text).unwrap().transactions.into_iter().map(|one| (one.connection_id, one.state)).collect()
    };
    let text = format!("{waiter}{holder}");
    let wanted = [(Some(67), "LOCK WAIT".to_owned()), (Some(83), "RUNNING".to_owned())];
    assert_eq!(states(&text), wanted);
    let over = states(&format!("*** (1) TRANSACTION:\nTRANSACTION 2EF8, ACTIVE 1 sec inserting\n{text}"));
    assert!(over.iter().all(|(_, state)| state != "LOCK WAIT"), "{over:?}");
}

#[test]
fn a_status_that_was_cut_inside_a_waiting_transaction_still_says_the_wait() {
    let text = "LOCK WAIT 2 lock struct(s), heap size 376, 1 row lock(s)\n\
                MySQL thread id 67, query id 9 10.0.0.7 app Updating\nUPDATE a SET b = 1\n\
                ------- TRX HAS BEEN WAITING 31 SEC FOR THIS LOCK\nindex `PRIMARY` lock_mode X locks rec but not gap waiting\n\
                ---TRANSACTION 2EF7, ACTIVE 36 sec\n437 lock struct(s), heap size 47544, 508 row lock(s)\n\
                MySQL thread id 83, query id 8 10.0.0.8 report\n";
    let from = |sign: &str| &text[text.find(sign).unwrap()..];
    for text in [text, from("MySQL thread id 67"), &text[..text.find("---TRANSACTION").unwrap()]] {
        let transactions = read(text).unwrap().transactions;
        let waiter = transactions.iter().find(|one| one.connection_id == Some(67)).unwrap();
        assert_eq!((waiter.state.as_str(), waiter.waited_s), ("LOCK WAIT", Some(31.0)), "{text}");
        assert_eq!(waiter.statement.as_deref(), Some("UPDATE a SET b = 1"), "{text}");
        let found = spindoctor_rules::diagnose(&crate::window(&crate::recognise("a.txt", text))).findings;
        assert_eq!(found[0].cause, "row-lock-pileup", "{text}: {found:#?}");
    }
}

#[test]
fn a_foreign_key_error_without_its_heading_is_one() {
    let text = "2019-05-05 11:12:14 7f70bbeba700 Error in foreign key constraint of table shop/line:\n\
                FOREIGN KEY (a) REFERENCES b (id):\nCannot resolve table name close to:\n(id)\n";
    for text in [text.to_owned(), format!("> {text}")] {
        assert!(text.lines().next().is_some_and(is_of_status));
        let event = read(&text).unwrap().status.latest_foreign_key_error.unwrap();
        assert!(event.text.contains("Cannot resolve table name"), "{event:?}");
    }
}

#[test]
fn the_rollback_of_a_server_that_counts_no_rows_is_who_has_the_lock() {
    let text = "------------\nTRANSACTIONS\n------------\n\
                ---TRANSACTION 0 421990, ACTIVE 2941 sec, process no 2811, OS thread id 1147713856 rollback\n\
                ROLLING BACK 812 lock struct(s), heap size 90439, undo log entries 182011\n\
                MySQL thread id 4211, query id 992811 10.0.0.8 batch end\nDELETE FROM a\n\
                ---TRANSACTION 0 421999, ACTIVE 48 sec, process no 2811, OS thread id 1147800000 inserting\n\
                LOCK WAIT 2 lock struct(s), heap size 368\nMySQL thread id 4300, query id 993001 10.0.0.9 web update\nINSERT INTO a VALUES (1)\n\
                ------- TRX HAS BEEN WAITING 48 SEC FOR THIS LOCK TO BE GRANTED:\n\
                RECORD LOCKS space id 0 page no 8 n bits 104 index `PRIMARY` of table `app/a` trx id 0 421999 lock_mode X insert intention waiting\n";
    let read = read(text).unwrap();
    assert_eq!(
        (read.waits[0].waiting_connection_id, read.waits[0].blocking_connection_id),
        (Some(4300), Some(4211))
    );
    assert_eq!(read.transactions[0].state, "ROLLING BACK");
}

#[test]
fn two_that_wait_for_each_other_in_a_status_are_a_ring_that_innodb_does_not_end_or_a_text_that_is_cut() {
    let ring = [
        transaction(
            7,
            "LOCK WAIT ",
            &[("X locks rec but not gap waiting", 43), ("X locks rec but not gap", 42)],
        ),
        transaction(
            6,
            "LOCK WAIT ",
            &[("X locks rec but not gap waiting", 42), ("X locks rec but not gap", 43)],
        ),
    ];
    assert_eq!(pairs(&ring), [(Some(7), Some(6)), (Some(6), Some(7))]);
    let headline = |wait: &str| {
        let text = format!(
            "------------\nTRANSACTIONS\n------------\nTrx id counter 100\n{}--------\nFILE I/O\n--------\nPending normal aio reads: 0\n",
            ring.concat().replace("9 SEC", wait)
        );
        let found = spindoctor_rules::diagnose(&crate::window(&crate::recognise("a.txt", &text))).findings;
        found.into_iter().map(|finding| finding.headline).collect::<Vec<_>>().join("; ")
    };
    assert!(headline("9 SEC").starts_with("2 sessions wait for each other on s.a"), "{}", headline("9 SEC"));
    assert!(!headline("1 SEC").contains("each other"), "{}", headline("1 SEC"));
}

#[test]
fn the_length_of_the_history_list_is_read_below_the_transactions_too() {
    let text = "---TRANSACTION 7712, ACTIVE 9000 sec updating or deleting\nmysql tables in use 1, locked 1\n\
                812 lock struct(s), heap size 8122, 90000 row lock(s), undo log entries 90000\nHistory list length 4000123\n";
    for text in [text.to_owned(), text.trim_end().to_owned()] {
        let read = super::read(&text).unwrap_or_else(|| panic!("nothing in {text}"));
        assert_eq!(read.status.transactions.history_list_length, Some(4_000_123), "{text}");
        assert_eq!(read.transactions.len(), 1, "{text}");
        assert_eq!(read.transactions[0].rows_modified, 90_000, "{text}");
    }
}
