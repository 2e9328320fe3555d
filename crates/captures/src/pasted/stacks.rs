//! Stacks as people paste them: lists of pt-pmp, gdb, parts of one thread.

use spindoctor_model::Severity;

use super::{first, found, parts};
use crate::window;

#[test]
fn the_inner_functions_alone_say_who_serves_a_client() {
    let text = "$ pt-pmp -l 5 stacks.txt\n 507 pthread_cond_wait,one_thread_per_connection_end,handle_one_connection,\nstart_thread,clone\n\
                398 pthread_cond_wait,os_event_wait_low,srv_conc_enter_innodb,\ninnodb_srv_conc_enter_innodb,ha_innodb::index_read\n\
                10 pthread_cond_wait,os_event_wait_low,os_aio_simulated_handle,fil_aio_wait,\nio_handler_thread\n";
    assert_eq!(first(text), "concurrency-queue");
}

#[test]
fn who_waits_in_open_table_of_an_old_server_waits_for_the_table() {
    let text = "   2387 pthread_cond_wait,open_table,open_tables,open_and_lock_tables_derived,mysql_execute_command,mysql_parse,\
                dispatch_command,do_command,handle_one_connection,start_thread,clone\n\
                      1 select,handle_connections_sockets,main,select\n";
    let findings = spindoctor_rules::diagnose(&window(&parts(text))).findings;
    let headline = &findings[0].headline;
    assert!(headline.contains("metadata lock"), "{headline}");
}

#[test]
fn a_few_sessions_that_do_the_same_are_not_met_with_silence() {
    let commit = "MYSQL_BIN_LOG::ordered_commit\n#3  0x5 ha_commit_trans\n#4  0x5 mysql_execute_command\n#5  0x5 dispatch_command\n#6  0x5 do_command\n";
    let text = format!(
        "PID 4711 - process\nTID 4799:\n#0  0x7 __lll_lock_wait\n#1  0x7 pthread_mutex_lock\n#2  0x5 {commit}\
         TID 4800:\n#0  0x7 fsync\n#1  0x5 MYSQL_BIN_LOG::sync_binlog_file\n#2  0x5 {commit}"
    );
    assert_eq!(found(&text), [("unnamed-wait".to_owned(), Severity::Note)]);
}

#[test]
fn a_part_of_a_stack_that_waits_is_a_session_that_waits() {
    let metadata = "Thread 19 (Thread 0x7f14 (LWP 27519)):\n\
                    #0  0x0000003e90c0cbd0 in pthread_cond_wait@@GLIBC_2.3.2 () from /lib64/libpthread.so.0\n\
                    #1  0x00000000007203ae in MDL_wait::timed_wait (this=0x7f) at /b/sql/mdl.cc:1340\n\
                    #2  0x0000000000721d3b in MDL_context::acquire_lock (this=0x7f) at /b/sql/mdl.cc:2356\n\
                    #3  0x00000000007751d7 in lock_table_names (thd=0x7f) at /b/sql/sql_base.cc:4881\n";
    assert!(found(metadata).iter().any(|(cause, severity)| {
        ["metadata-lock-pileup", "unnamed-wait"].contains(&cause.as_str()) && *severity > Severity::Note
    }));
    let galera = "> Thread 2 (Thread 0x7f56 (LWP 37316)):\n\
                  > #0  0x0000003e90c0cbd0 in pthread_cond_wait@@GLIBC_2.3.2 () from /lib64/libpthread.so.0\n\
                  > #1  gcs_sm_enter (block=<optimized out>) at gcs/src/gcs_sm.hpp:300\n\
                  > #2  gcs_replv (conn=0x1d8a000) at gcs/src/gcs.cpp:1556\n\
                  > #3  0x00007f56d10b6516 in galera_pre_commit (gh=<optimized out>) at galera/src/wsrep_provider.cpp:497\n";
    assert_eq!(first(galera), "galera-flow-control");
    // The sign before the innermost is lost.
    let order = "0  pthread_cond_wait@@GLIBC_2.3.2 () at ../nptl/sysdeps/unix/sysv/linux/x86_64/pthread_cond_wait.S:185\n\
                 #1  0x00007f0f792a2824 in gu::Lock::wait (cond=...) at galerautils/src/gu_lock.hpp:56\n\
                 #2  0x00007f0f792b0e36 in galera::ReplicatorSMM::cert (this=0x30) at galera/src/replicator_smm.cpp:1687\n";
    assert_eq!(first(order), "galera-flow-control");
    let row = "#0  pthread_cond_wait@@GLIBC_2.3.2 () at ../nptl/pthread_cond_wait.S:185\n\
               #1  0x0000000000bea590 in os_event_wait_low (event=0x7f) at /b/innobase/os/os0sync.cc:610\n\
               #2  0x0000000000bc7e5d in lock_wait_suspend_thread (thr=0x7f) at /b/innobase/lock/lock0wait.cc:344\n\
               #3  0x0000000000c5ebd9 in row_mysql_handle_errors (trx=0x7f) at /b/innobase/row/row0mysql.cc:632\n\
               ---Type <return> to continue, or q <return> to quit---\n\
               #4  0x0000000000c92227 in row_search_for_mysql (buf=0x7f) at /b/innobase/row/row0sel.cc:5058\n";
    assert!(!found(row).is_empty());
    let latch = "    598 poll(libc.so.6),vio_io_wait(viosocket.c:945),vio_read(viosocket.c:184),do_command(sql_parse.cc:1262),clone(libc.so.6)\n\
                 \x20    82 pthread_cond_wait,wait(os0event.cc:158),sync_array_wait_event(sync0arr.cc:471),rw_lock_s_lock_spin(sync0rw.cc:373)\n";
    assert!(found(latch).iter().any(|(_, severity)| *severity > Severity::Note), "{:?}", found(latch));
    let blanks = "1 2 3 4 5 6 7 8 |\n\
                  101 __futex_abstimed_wait_common64, native_cond_timedwait(thr_cond.h:99),inline_mysql_cond_timedwait(mysql_cond.h:242), \
                  MDL_wait::timed_wait(mdl.cc:1837),MDL_context::acquire_lock(mdl.cc:3540),open_table(sql_base.cc:3108), \
                  open_tables(sql_base.cc:5942),dispatch_command(sql_parse.cc:1964)\n";
    assert!(found(blanks).iter().any(|(_, severity)| *severity > Severity::Note), "{:?}", found(blanks));
}

#[test]
fn threads_that_send_the_binary_log_wait_for_nobody() {
    let idle = "Thread 3 (Thread 0x7f4d (LWP 11148)):\n\
                #0  0x00007f4d7d2a4a00 in pthread_cond_wait () from /lib64/libpthread.so.0\n\
                #1  0x0000000000a01234 in MYSQL_BIN_LOG::wait_for_update_bin_log (this=0x1) at /b/sql/binlog.cc:5041\n\
                #2  0x0000000000a01235 in mysql_binlog_send (thd=0x1) at /b/sql/rpl_master.cc:1671\n\
                #3  0x0000000000a01236 in dispatch_command (command=COM_BINLOG_DUMP) at /b/sql/sql_parse.cc:1594\n\
                #4  0x0000000000a01237 in start_thread () from /lib64/libpthread.so.0\n";
    assert_eq!(found(idle), []);
}

#[test]
fn connections_that_cannot_end_and_threads_that_spin_are_not_answered_with_nothing() {
    let ends = "8473 __lll_lock_wait(libpthread.so.0),pthread_mutex_lock(libpthread.so.0),TC_LOG_MMAP::log_xid(log.cc:2980),\
                THD::cleanup(sql_class.cc:1651),one_thread_per_connection_end(mysqld.cc:3225),handle_one_connection(sql_connect.cc:961)\n\
                28 poll(libc.so.6),vio_io_wait(viosocket.c:808),my_net_read(net_serv.cc:1736),do_command(sql_parse.cc:1102),\
                handle_one_connection(sql_connect.cc:961),start_thread(libpthread.so.0)\n";
    assert_eq!(found(ends), [("unnamed-wait".to_owned(), Severity::Critical)]);
    let thread = |number: u32| {
        format!(
            "Thread {number} (LWP {number}):\n#0  0x00a1 in pthread_mutex_lock () from /lib64/libpthread.so.0\n\
             #1  0x00a2 in THD::release_resources (this=0x1) at sql_class.cc:1792\n#2  0x00a3 in handle_connection (arg=0x1) at c.cc:3\n"
        )
    };
    assert_eq!(
        found(&(1..9).map(thread).collect::<String>()),
        [("unnamed-wait".to_owned(), Severity::Critical)]
    );
    let rest = "28 poll(libc.so.6),vio_io_wait(viosocket.c:808),my_net_read(net_serv.cc:1736),do_command(sql_parse.cc:1102),\
                handle_one_connection(sql_connect.cc:961),start_thread(libpthread.so.0)\n\
                4 pthread_cond_wait,block_until_new_connection,handle_connection,start_thread\n";
    assert_eq!(found(rest), []);
    let spin = "1402 ut_delay(ut0ut.cc:10),mutex_spin_wait(sync0sync.cc:533),dict_table_open_on_name(dict0dict.cc:1150),\
                ha_innobase::open(ha_innodb.cc:4900),open_table(sql_base.cc:3100),dispatch_command,do_command,start_thread\n\
                36 nanosleep(libpthread.so.0),buf_flush_wait_flushed(buf0flu.cc:1),ha_innobase::update_row(ha_innodb.cc:1),dispatch_command\n";
    assert_eq!(found(spin), [("unnamed-wait".to_owned(), Severity::Critical)]);
}

#[test]
fn commits_behind_one_sync_are_named_by_stacks() {
    let below = "MYSQL_BIN_LOG::ordered_commit\n#4  0x5 ha_commit_trans\n#5  0x5 dispatch_command\n#6  0x5 do_command\n";
    let mut text = format!(
        "TID 9:\n#0  0x7 fsync\n#1  0x7 my_sync\n#2  0x5 MYSQL_BIN_LOG::sync_binlog_file\n#3  0x5 {below}"
    );
    for id in 10..16 {
        text.push_str(&format!("TID {id}:\n#0  0x7 pthread_cond_wait\n#1  0x7 Stage_manager::enroll_for\n#2  0x5 MYSQL_BIN_LOG::change_stage\n#3  0x5 {below}"));
    }
    assert_eq!(found(&text)[0].0, "commit-sync-bound");
}

#[test]
fn sessions_before_the_mutex_of_the_open_tables_are_named_and_idle_threads_are_in_no_share() {
    let counted = |rests: &str, of_statement: &str| {
        format!(
            "    480 {rests},do_command(sql_parse.cc:901),handle_one_connection(sql_connect.cc:1208),start_thread,clone\n\
             \x20    37 pthread_cond_wait,os_event_wait_low(os0sync.c:396),srv_purge_thread,start_thread,clone\n\
             \x20     9 __lll_lock_wait,_L_lock_854,pthread_mutex_lock,open_table(sql_base.cc:2711),open_tables(sql_base.cc:4301){of_statement}\n\
             \x20     3 row_search_for_mysql(row0sel.c:3369),ha_innobase::index_read(ha_innodb.cc:5100){of_statement}\n"
        )
    };
    let whole = ",mysql_execute_command,dispatch_command,do_command,handle_one_connection,start_thread,clone";
    let polls = "poll,vio_poll_read(viosocket.c:300),my_net_read(net_serv.cc:805)";
    // The innermost functions are left out, or the outer ones.
    for (rests, of_statement) in [
        (polls, whole),
        ("vio_read(viosocket.c:41),my_net_read(net_serv.cc:805)", whole),
        (polls, ",mysql_execute_command"),
    ] {
        let text = counted(rests, of_statement);
        let first = spindoctor_rules::diagnose(&window(&parts(&text))).findings.remove(0);
        assert_eq!(first.cause, "table-cache-contention", "{text}{first:#?}");
        assert!(first.headline.starts_with("75 % of the sessions' time"), "{text}{}", first.headline);
    }
}

#[test]
fn threads_that_rest_seem_to_run_where_their_innermost_functions_are_left_out() {
    let text = "480 vio_read(viosocket.c:41),my_net_read(net_serv.cc:805),do_command(sql_parse.cc:901),handle_one_connection,start_thread,clone\n\
                6 pthread_cond_wait,MDL_wait::timed_wait(mdl.cc:18),MDL_context::acquire_lock(mdl.cc:30),open_table(sql_base.cc:30),\
                dispatch_command,do_command,handle_one_connection,start_thread,clone\n";
    let time = spindoctor_rules::session_time(&window(&parts(text))).unwrap();
    assert_eq!(time.session_seconds_per_second, 6.0);
}
