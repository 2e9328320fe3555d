use spindoctor_model::TroubleKind;

use super::*;
use crate::part::Kind;
use crate::recognise;

const LOG: &str = "2024-03-04 10:11:12 [INFO] ProxySQL version 2.6.3\n2024-03-04 10:11:12 [INFO] Starting the admin interface\n\
                   2024-03-04 10:11:14 MySQL_Monitor.cpp:3158:monitor_ping(): [ERROR] Server 10.1.0.4:3306 missed 3 heartbeats, shunning \
                   it and killing all the connections.\n\
                   2024-03-04 10:11:15 mysql_connection.cpp:1203:handler(): [ERROR] Failed to mysql_real_connect() on 20:10.1.0.4:3306 , \
                   FD (Conn:0 , MyDS:43) , 2002: Can't connect to server on '10.1.0.4' (113).\n\
                   2024-03-04 10:11:34 MySQL_Monitor.cpp:3158:monitor_ping(): [ERROR] Server 10.1.0.4:3306 missed 3 heartbeats, shunning \
                   it and killing all the connections.\n\
                   HID: 2 , address: 10.1.0.4 , port: 3306 , status: SHUNNED\n";

/// What a log says behind the sentence of what it is.
fn says(text: &str) -> Vec<String> {
    let parts = recognise("x.log", text);
    assert_eq!(parts.iter().map(|part| part.kind).collect::<Vec<_>>(), [Kind::OtherProgram], "{parts:#?}");
    parts[0].says[1..].to_vec()
}

#[test]
fn a_log_of_proxysql_is_no_server_s_and_says_which_server_did_not_answer() {
    for text in [LOG.to_owned(), format!("This is what we see:\n\n```\n{LOG}```\n")] {
        let says = says(&text);
        assert_eq!(
            says[0],
            "10.1.0.4:3306 did not answer ProxySQL's pings, and gets no queries meanwhile (2 times)"
        );
        let failed = "a connection to 10.1.0.4:3306 (hostgroup 20) failed (1 time); its error says that a client got no answer";
        assert!(says.len() == 2 && says[1].starts_with(failed), "{says:?}");
    }
    let lag = "2024-03-04 10:11:12 MySQL_HostGroups_Manager.cpp:1602:replication_lag_action(): [WARNING] Shunning server db2:3306 with \
               replication lag of 60 second\n";
    assert!(says(lag)[0].starts_with("db2:3306 is a replica that was too far behind"), "{:?}", read(lag));
}

#[test]
fn checks_of_proxysql_that_were_missed_are_said_apart() {
    let of_read_only = "2024-03-04 10:11:12 MySQL_Monitor.cpp:1795:monitor_read_only_thread(): [ERROR] Server db1:3306 missed 3 read_only \
                        checks. Assuming read_only=1\n";
    assert_eq!(
        says(of_read_only),
        [
            "db1:3306 did not answer ProxySQL's checks of read_only: it is taken for read-only, and gets no writes (1 time)"
        ]
    );
    let late = "2024-03-04 10:11:12 MySQL_Monitor.cpp:1613:monitor_read_only_thread(): [ERROR] Timeout on read_only check for db1:3306 after \
                801ms. If the server is overload, increase mysql-monitor_read_only_timeout.\n";
    assert!(
        says(late)[0].starts_with("db1:3306 answered the check of read_only too late"),
        "{:?}",
        says(late)
    );
    let alone = late.replace(
        "If the server is overload, increase mysql-monitor_read_only_timeout.",
        "Unable to create a connection. If the server is overload, increase mysql-monitor_connect_timeout. Error: timeout on creating new \
         connection: Can't connect to server on 'db1' (110).",
    );
    let wanted = "ProxySQL's check of read_only got no connection to db1:3306 (mysql-monitor_connect_timeout) (1 time); its error says that a \
                  client got no answer when it connected";
    assert!(says(&alone)[0].starts_with(wanted), "{:?}", says(&alone));
    let stopped = "2024-03-04 10:11:12 MySQL_Monitor.cpp:7595:f(): [ERROR] Replication lag on server db2:3306 is NULL, using the value 604800 \
                   (mysql-monitor_slave_lag_when_null)\n2024-03-04 10:11:12 MySQL_HostGroups_Manager.cpp:3388:g(): [WARNING] Shunning server \
                   db2:3306 from HG 1 with replication lag of 604800 second, count number: '1'\n";
    let said = says(stopped);
    assert!(said.len() == 1 && said[0].starts_with("replication has stopped on db2:3306 "), "{said:?}");
}

#[test]
fn an_error_that_a_server_answered_proxysql_with_is_a_trouble_of_that_server() {
    let refused = |time: &str| {
        format!(
            "2024-03-04 {time} mysql_connection.cpp:634:handler(): [ERROR] Failed to mysql_real_connect() on db1:3306 , FD (Conn:5 , MyDS:5) , \
             1040: Too many connections.\n"
        )
    };
    let shunned = "2024-03-04 10:11:13 MySQL_HostGroups_Manager.cpp:303:connect_error(): [ERROR] Shunning server db1:3306 with 5 errors/sec. \
                   Shunning for 10 seconds\n";
    let text = format!("{}{}{shunned}", refused("10:11:12"), refused("10:11:13"));
    assert!(says(&text)[0].ends_with("its error says that clients were refused: too many connections"));
    assert!(
        says(&text)[1].starts_with("ProxySQL sent nothing to db1:3306 for some seconds"),
        "{:?}",
        says(&text)
    );
    let troubles = read(&text).troubles;
    assert_eq!(
        (troubles.len(), troubles[0].kind, troubles[0].times),
        (1, TroubleKind::TooManyConnections, 2)
    );
    assert_eq!(troubles[0].before_end_s, Some(0.0));
    let findings = |text: &str| {
        let found = spindoctor_rules::diagnose(&crate::window(&recognise("x.log", text))).findings;
        found.into_iter().map(|finding| finding.cause).collect::<Vec<_>>()
    };
    assert_eq!(findings(&text), ["connections-exhausted"]);
    // An hour later it is over.
    assert_eq!(findings(&format!("{text}{}", shunned.replace("10:11:13", "11:31:13"))), Vec::<String>::new());
    let denied = text.replace(
        "1040: Too many connections.",
        "1045: Access denied for user 'app'@'10.1.0.9' (using password: YES).",
    );
    assert!(says(&denied)[0].contains("the server refused an account"), "{:?}", says(&denied));
    assert!(read(&denied).troubles.is_empty());
    let during = "2024-03-04 10:11:12 MySQL_Session.cpp:4567:handler(): [WARNING] Error during query on (1,db1,3306): 1205, Lock wait timeout \
                  exceeded; try restarting transaction\n";
    assert_eq!(says(during), ["statements gave up their wait for a row's lock (error 1205) (1 time)"]);
}

#[test]
fn logs_of_maxscale_router_and_orchestrator_say_which_server_was_lost() {
    let changed = |name: &str, event: &str| {
        format!(
            "2024-03-04 10:11:12   notice : Server changed state: {name}[10.1.0.4:3306]: {event}. [Running] -> [Down]\n"
        )
    };
    let maxscale = [
        changed("db1", "master_down"),
        changed("db2", "new_master"),
        changed("db3", "lost_slave"),
        changed("db3", "new_slave"),
        "2024-03-04 10:11:12   error  : Monitor was unable to connect to server db3[10.1.0.6:3306] : 'Host '10.1.0.9' is not allowed to connect \
         to this MariaDB server'\n"
            .to_owned(),
    ]
    .concat();
    let said = says(&maxscale);
    let begins = [
        "MaxScale's monitor got no connection to db3 (1 time); its error says that the server lets no account in from a client's host",
        "db1, the primary, went down (1 time)",
        "db2 became the primary (1 time)",
        "db3 runs, and was no replica any more",
    ];
    assert!(
        said.len() == begins.len() && said.iter().zip(begins).all(|(said, begin)| said.starts_with(begin)),
        "{said:#?}"
    );
    let router = "2024-03-04 10:11:12 metadata_cache WARNING [7f1a2c7fe640] Member db1:3306 (31b0b8e0-0d5e-11ec-90a1) defined in metadata not \
                  found in actual replicaset\n2024-03-04 10:11:12 routing WARNING [7f1a2bffd640] [routing:rw] No available servers found for \
                  PRIMARY\n2024-03-04 10:11:13 routing ERROR [7f1a2b7fc640] [routing:rw] 0.0.0.0:6446: too many connection errors from \
                  10.1.0.9, blocking\n";
    let said = says(router);
    assert!(
        said[0].starts_with("db1:3306 is in the cluster's metadata, and no member of its group"),
        "{said:?}"
    );
    assert!(said[1].starts_with("Router found no server for PRIMARY connections"), "{said:?}");
    assert!(said[2].starts_with("Router blocks the client 10.1.0.9 "), "{said:?}");
    let orchestrator = "2024-03-04 10:11:12 INFO topology_recovery: detected DeadMaster failure on db1:3306\n2024-03-04 10:11:13 INFO waiting\n\
                        2024-03-04 10:11:17 INFO topology_recovery: RecoverDeadMaster: successfully promoted db2:3306\n";
    let said = says(orchestrator);
    assert!(said[0].starts_with("db1:3306, the primary, is dead"), "{said:?}");
    assert_eq!(said[1], "orchestrator made db2:3306 the primary (1 time)");
}

#[test]
fn lines_of_servers_and_of_other_programs_are_none_of_its() {
    for line in [
        "2024-03-04 10:11:12 0 [ERROR] InnoDB: in file a.cpp: no",
        "2024-03-04 10:11:12 [INFO] worker 7 started",
        "MySQL_Monitor.cpp:12:f(): [ERROR] Server a missed 3",
        "2024-03-04 10:11:12",
        "20é",
        "2024-03-04 10:11:12 ERROR payment failed",
        "2024-03-04 10:11:12 ERROR c.a.orchestrator.Main: Communications link failure",
        "2024-03-04 10:11:12 main INFO [7f1a2c7fe640] started",
        "2024-03-04 10:11:12 routing INFO [main] started",
        "2024-03-04 10:11:12 io ERROR [7f1a2c7fe640] cannot read the queue",
        "2024-03-04 10:11:12 sql WARNING [1f] query took 3 s",
        "2024-03-04 10:11:12 http_server INFO [2a] listening",
        "2024-03-04 10:11:12 notice : Server changed state: a: master_down. ",
    ] {
        assert!(!is_line(line), "{line}");
    }
    assert!(is_line(
        "2024-03-04 10:11:12 io INFO [7f1a2c7fe640] starting 4 io-threads, using backend 'linux_epoll'"
    ));
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "(2024-03-04 10:11:12 |a.cpp:1:f\\(\\): |\\[INFO\\] |ProxySQL|Server | missed |Hostgroup |   notice : |changed state: |\\[|\\]: |master_down. |1040: Too many connections|é|\n){0,40}") {
        goes_on(&text);
        read(&text);
    }
}
