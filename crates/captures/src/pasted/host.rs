//! What the kernel's log and the tools of the system say beside a server, as people paste it.

use spindoctor_model::Severity;

use super::{first, found, parts};
use crate::part::Kind;

#[test]
fn what_the_kernel_and_the_redo_log_say_is_a_finding() {
    let killed = "May  2 10:06:51 db1 kernel: [12345.678] Out of memory: Killed process 4711 (mysqld) total-vm:38912345kB\n";
    assert_eq!(found(killed), [("memory-pressure".to_owned(), Severity::Warning)]);
    let other = killed.replace("mysqld", "java");
    assert!(parts(&other)[0].says[0].contains("killed other programs"), "{:?}", parts(&other));
    assert_eq!(found(&other), []);
    let full = "2023-05-02T10:06:51.797484Z 0 [Warning] [MY-013865] [InnoDB] Redo log writer is waiting for a new redo log file.\n";
    assert_eq!(first(full), "checkpoint-stall");
}

#[test]
fn what_tools_of_the_system_print_beside_a_server_is_a_finding_of_its_own() {
    let iostat = "Linux 5.10.0-8-amd64 (db1) \t07/21/2023 \t_x86_64_\t(16 CPU)\n\navg-cpu:  %user   %nice %system %iowait  %steal   %idle\n\
                  \x20          6.21    0.00    2.11   41.20    0.00   50.48\n\n\
                  Device            r/s     rkB/s r_await     w/s     wkB/s w_await  aqu-sz  %util\n\
                  sda            812.00  12992.00   18.20  102.00   3264.00   42.10   19.10 100.00\n";
    assert_eq!(found(iostat), [("read-io-bound".to_owned(), Severity::Warning)]);
    let df = "Filesystem      Size  Used Avail Use% Mounted on\n/dev/nvme1n1    1.8T  1.8T     0 100% /var/lib/mysql\n";
    assert_eq!(first(df), "disk-full");
    let hung = "[ 9123.123456] INFO: task mysqld:2211 blocked for more than 120 seconds.\n\
                [ 9123.123460]       Not tainted 4.15.0-112-generic #113-Ubuntu\n\
                [ 9123.123466] mysqld          D    0  2211      1 0x00000000\n[ 9123.123470] Call Trace:\n\
                [ 9123.123480]  __schedule+0x24e/0x880\n[ 9123.123490]  jbd2_log_wait_commit+0x8a/0xe0\n";
    assert_eq!(first(hung), "storage-stalled");
    assert_eq!(
        first("nr_periods 120000\nnr_throttled 98000\nthrottled_time 8212345678901\n"),
        "cpu-throttled"
    );
    let top = "top - 14:02:11 up 210 days,  3:12,  2 users,  load average: 92.10, 70.33, 40.02\n\
               %Cpu(s): 94.2 us,  4.9 sy,  0.0 ni,  0.6 id,  0.1 wa,  0.0 hi,  0.2 si,  0.0 st\n\n\
               \x20   PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n\
               \x20  9912 root      20   0  110232   9012   2012 R  1402   0.0   0:01.12 xz\n\
               \x20  2211 mysql     20   0   70.1g  55.2g  11232 S 152.0  88.0  99123:12 mysqld\n";
    assert_eq!(first(top), "noisy-neighbour");
    // A host that does well is no finding.
    assert_eq!(found(&iostat.replace("100.00\n", "12.00\n")), []);
    assert_eq!(found(&df.replace("100%", "61%")), []);
}

#[test]
fn a_crash_and_a_kill_are_findings_in_every_form() {
    let log = "210226 15:49:51 [ERROR] mysqld got signal 11 ;\nThis could be because you hit a bug. It is also possible that this binary\n";
    assert_eq!(first(log), "server-stopped");
    let core = "<pre>\n+bt\n#0  0x00007f6561eca771 in __pthread_kill (threadid=&lt;optimized out&gt;, signo=11) at ../nptl/pthread_kill.c:61\n\
                #1  0x0000000000a63ed4 in handle_fatal_signal (sig=11) at /b/sql/signal_handler.cc:239\n\
                #2  &lt;signal handler called&gt;\n#3  0x0000000000ac1814 in thd_ha_data (thd=0x7f) at /b/sql/sql_class.cc:669\n\
                #4  0x0000000001102426 in i_s_innodb_buffer_page_fill_table (thd=0x7f) at /b/handler/i_s.cc:5734\n";
    assert_eq!(first(core), "server-stopped");
    assert!(parts(core).iter().flat_map(|part| &part.says).any(|said| said.contains("thd_ha_data")));
    for kill in [
        "[2006013.230723] mysqld invoked oom-killer: gfp_mask=0x201da, order=0, oom_adj=0\n",
        "Mar  2 17:35:10 server1 kernel: [2858609.598568] Killed process 11726, UID 498, (mysqld) total-vm:7823732kB, anon-rss:2539268kB\n",
        "[11.2] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task_memcg=/,task=mysqld,pid=811,uid=112\n",
        "$ dmesg -T | tail\n[Tue Mar 12 03:10:11 2024] Out of memory: Killed process 4711 (mys\nqld) total-vm:7823732kB, anon-rss:7539268kB\n",
    ] {
        assert_eq!(first(kill), "memory-pressure", "{kill}");
    }
    let other = "[ 9123.1] INFO: task java:2211 blocked for more than 120 seconds.\n[ 9123.2] java            D    0  2211      1\n";
    assert_eq!(found(other), []);
}

#[test]
fn the_kernels_table_of_tasks_says_who_had_the_memory() {
    let report = "[Tue Mar 12 03:10:11 2024] mysqld invoked oom-killer: gfp_mask=0x100cca, order=0, oom_score_adj=0\n\
                  [Tue Mar 12 03:10:11 2024] Tasks state (memory values in pages):\n\
                  [Tue Mar 12 03:10:11 2024] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name\n\
                  [Tue Mar 12 03:10:11 2024] [   4711]    27  4711  3456789  1310720       19087360        0             0 mysqld\n\
                  [Tue Mar 12 03:10:11 2024] [    812]  1000   812  9456789  2621440       39087360        0             0 java\n\
                  [Tue Mar 12 03:10:11 2024] Out of memory: Killed process 4711 (mysqld) total-vm:13827156kB, anon-rss:5242880kB\n";
    assert_eq!(first(report), "memory-pressure");
    let says: Vec<String> = parts(report).into_iter().flat_map(|part| part.says).collect();
    assert!(says.iter().any(|said| said.contains("java 10 GiB, mysqld 5 GiB")), "{says:?}");
}

#[test]
fn what_the_kernel_says_of_disks_and_a_plugin_of_its_group_is_said() {
    for (line, says) in [
        (
            "[ 9123.1] blk_update_request: I/O error, dev sda, sector 81234 op 0x0:(READ) flags 0x80700",
            "answered the kernel with errors",
        ),
        (
            "[ 9123.1] I/O error, dev sdb, sector 81234 op 0x1:(WRITE) flags 0x800",
            "answered the kernel with errors",
        ),
        (
            "Mar  4 10:11:12 db1 kernel: Buffer I/O error on dev dm-1, logical block 8123, lost async page write",
            "answered the kernel with errors",
        ),
        ("[ 9124.3] EXT4-fs (dm-1): Remounting filesystem read-only", "made a file system read-only"),
        ("[81234.1] nvme nvme0: I/O 812 QID 7 timeout, aborting", "gave requests up"),
        (
            "2024-03-04T10:11:17.123456Z 0 [ERROR] [MY-011495] [Repl] Plugin group_replication reported: 'This server is not able to \
             reach a majority of members in the group. This server will now block all updates.'",
            "blocked each change",
        ),
        (
            "2024-03-04T10:11:12.123456Z 0 [Warning] [MY-011493] [Repl] Plugin group_replication reported: 'Member with address \
             db2:3306 has become unreachable.'",
            "did not answer",
        ),
    ] {
        let read = parts(&format!("{line}\n"));
        assert_eq!(read[0].kind, Kind::ErrorLog, "{line}");
        assert!(read[0].says.iter().any(|said| said.contains(says)), "{line}: {:?}", read[0].says);
    }
}
