use super::*;

fn kinds(text: &str) -> Vec<TroubleKind> {
    read(text).troubles.iter().map(|trouble| trouble.kind).collect()
}

#[test]
fn of_a_table_without_end_the_first_rows_are_read() {
    let text = format!("r b swpd\n{}", "1 2 3\n".repeat(MOST_ROWS + 9));
    let reports = tables(&text, |words| words.starts_with(&["r", "b", "swpd"]));
    assert_eq!(reports.iter().map(Vec::len).sum::<usize>(), MOST_ROWS);
}

#[test]
fn of_a_line_without_end_the_first_words_are_read() {
    let text = format!("r b swpd {}\n{}\n", "x ".repeat(MOST_ROWS), "1 ".repeat(MOST_ROWS));
    let reports = tables(&text, |words| words.starts_with(&["r", "b", "swpd"]));
    assert_eq!(reports[0][0].len(), ["r", "b", "swpd", "x"].len());
    assert_eq!(read(&text).says, Vec::<String>::new());
    let full = format!("/dev/sda1 9 9 0 100% /data {}", "x ".repeat(MOST_ROWS));
    assert_eq!(kinds(&full), [TroubleKind::DiskFull]);
}

const VMSTAT: &str = "\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 2  1 812345  23456   1234 234567    1    2   234   345  900 2200  5  4 89  2  0
 1 17 813345  20456   1234 234567  912 1304 21456 31567 9000 22000  4  4  1 91  0
 3 15 814345  21456   1234 234567 1012 1104 20456 32567 9000 22000  5  3  1 91  0
";

#[test]
fn a_host_that_swaps_says_so_and_its_mean_since_the_start_is_left_out() {
    let found = read(VMSTAT);
    assert_eq!(
        found.says,
        [
            "The host swaps: 962 KiB/s in, 1204 KiB/s out",
            "16 threads wait for a disk, and the CPUs do nothing else in 91 % of the time"
        ]
    );
    assert_eq!(kinds(VMSTAT), [TroubleKind::Swapping]);
    let calm: String = VMSTAT.lines().take(3).map(|line| format!("{line}\n")).collect();
    assert_eq!(read(&calm), SystemText::default());
    let steal = calm.replace("5  4 89  2  0", "5  4 59  2 30");
    assert_eq!(kinds(&steal), [TroubleKind::CpusTaken]);
    // Pages that are written out for others, before many are read again.
    let out = VMSTAT.replace(" 912 1304", "  12 1304").replace("1012 1104", "  40  904");
    assert_eq!(kinds(&out), [TroubleKind::Swapping]);
    let beforehand = out.replace("  12 1304", "   0 1304").replace("  40  904", "   0  904");
    assert_eq!(kinds(&beforehand), []);
    let little = out.replace("1304", "  30").replace("  904", "   40");
    assert_eq!(kinds(&little), []);
    let first = calm.replace(" 2  1 812345", " 2 91 812345");
    assert_eq!(read(&first).says, ["91 threads wait for a disk"]);
    // All in one line, as a form on a page makes it.
    assert_eq!(read(&VMSTAT.replace('\n', " ")).says, found.says);
}

#[test]
fn a_disk_that_is_full_of_requests_is_named_with_what_it_does() {
    let report = |reads: &str, writes: &str, util: &str| {
        format!(
            "Device            r/s     rkB/s r_await     w/s     wkB/s w_await  aqu-sz  %util\n\
                 sda            {reads}  12992.00 18.20  {writes}   3264.00   42.10   19.10 {util}\n\
                 sdb              0.00      0.00    0.00    1.00      4.00    0.10    0.00   0.20\n\n"
        )
    };
    let found = read(&report("812.00", "102.00", "100.00"));
    assert_eq!(found.says, ["The disk sda is 100 % busy: 812 reads a second take 18 ms each"]);
    assert_eq!(kinds(&report("8.00", "102.00", "100.00")), [TroubleKind::BusyWriting]);
    let both = read(&report("110.00", "102.00", "100.00"));
    assert_eq!(
        both.says,
        ["The disk sda is 100 % busy: 102 writes a second take 42 ms each, and 110 reads 18 ms"]
    );
    assert_eq!(kinds(&report("812.00", "102.00", "40.00")), []);
    // The first report is of all time.
    assert_eq!(
        kinds(&format!("{}{}", report("812.00", "2.00", "99.00"), report("8.00", "1.00", "10.00"))),
        []
    );
    let old = "Device:         rrqm/s   wrqm/s     r/s     w/s    rkB/s    wkB/s avgrq-sz avgqu-sz   await  svctm  %util\n\
                   xvdf              0.00     4.00  900.00   20.00 14400.00   320.00    32.00    12.10   13.00   1.09 100.00\n";
    assert_eq!(kinds(old), [TroubleKind::BusyReading]);
}

#[test]
fn a_disk_that_answers_late_is_said_though_it_is_not_busy() {
    let sar = |wait: &str, busy: &str| {
        format!(
            "10:00:01          DEV       tps  rd_sec/s  wr_sec/s  avgrq-sz  avgqu-sz     await     svctm     %util\n\
                 10:10:01     dev253-2   1200.00   1800.00  20200.00     14.20    613.68   {wait}      0.15     {busy}\n\
                 10:20:01     dev253-2   1400.00   1800.00  20200.00     14.20    613.68   {wait}      0.15     {busy}\n\
                 10:20:01     dev253-0      1.00      8.00      8.00     14.20      0.01   {wait}      0.15      0.10\n"
        )
    };
    assert_eq!(
        read(&sar("120.00", "40.00")).says,
        [
            "The disk dev253-2 is 40 % busy, and yet 1300 requests a second take 120 ms each: they come in bursts, or wait for storage \
                 that others use, too"
        ]
    );
    assert_eq!(kinds(&sar("120.00", "40.00")), []);
    assert_eq!(kinds(&sar("120.00", "99.00")), [TroubleKind::BusyWriting]);
    assert_eq!(read(&sar("9.00", "40.00")).says, Vec::<String>::new());
    let parts = crate::recognise("a.txt", &sar("120.00", "99.00"));
    assert!(parts.iter().any(|part| !part.moments.is_empty()), "{parts:?}");
}

#[test]
fn an_empty_line_between_a_head_and_its_row_parts_them_not() {
    let head = "Device: rrqm/s wrqm/s r/s w/s rsec/s wsec/s avgrq-sz avgqu-sz await svctm %util\n";
    let row = "sda 0.00 0.00 812.00 2.00 192.00 1408.00 16.84 2.66 27.96 3.75 99.60\n";
    assert_eq!(kinds(&format!("{head}\n{row}")), [TroubleKind::BusyReading]);
    assert_eq!(kinds(&format!("{head}Name of it\n{row}")), []);
}

#[test]
fn who_has_full_cpus_is_the_server_or_somebody_else() {
    let top = |others: &str, idle: &str| {
        let own = 94.8 - idle.parse::<f64>().unwrap();
        format!(
            "top - 14:02:11 up 210 days,  3:12,  2 users,  load average: 92.10, 70.33, 40.02\n\
                 %Cpu(s): {own:.1} us,  4.9 sy,  0.0 ni,  {idle} id,  0.1 wa,  0.0 hi,  0.2 si,  0.0 st\n\n\
                 \x20   PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n\
                 \x20  2211 mysql     20   0   70.1g  55.2g  11232 S 152.0  88.0  99123:12 mysqld\n\
                 \x20  9912 root      20   0  110232   9012   2012 R {others}   0.0   0:01.12 xz\n"
        )
    };
    assert_eq!(read(&top("3.2", "0.6")).says, ["The server uses 1.5 CPUs, and 0.6 % of the CPUs are idle"]);
    assert_eq!(kinds(&top("1402.0", "0.6")), [TroubleKind::CpusTaken]);
    assert_eq!(kinds(&top("1402.0", "40.0")), []);
    assert_eq!(
        read(&top("3.2", "40.0")).says,
        [
            "The server uses 1.5 CPUs, and 40.0 % of the CPUs are idle: top -H -p PID says which of its threads"
        ]
    );
    assert_eq!(read(&top("3.2", "40.0").replace("152.0", " 52.0")).says, Vec::<String>::new());
    // In a language that writes a comma in its numbers.
    let comma = |text: String| {
        text.replace(" 94.2 us,  4.9 sy", " 94,2 us,  4,9 sy")
            .replace("0.6 id", "0,6 id")
            .replace("152.0", "152,0")
    };
    assert_eq!(
        read(&comma(top("3,2", "0.6"))).says,
        ["The server uses 1.5 CPUs, and 0.6 % of the CPUs are idle"]
    );
}

#[test]
fn a_list_of_processes_without_the_shares_of_the_cpus_says_what_the_server_uses() {
    let says = "The server uses 3.0 CPUs: top -H -p PID says which of its threads";
    let bsd = "  PID USERNAME    THR PRI NICE   SIZE    RES STATE    C   TIME    WCPU COMMAND\n\
                   4711 mysql        41  24    0  4841M   441M select  10   5:14 299.27% mysqld\n";
    assert_eq!(read(bsd).says, [says]);
    let linux = "    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND\n   \
                     4711 mysql     20   0   70.1g  55.2g  11232 S 302.0  88.0  99123:12 mysqld\n";
    assert_eq!(read(linux).says, [says]);
    assert_eq!(read(&linux.replace("302.0", " 42.0")).says, Vec::<String>::new());
    let ps = "    PID %CPU COMMAND\n   4711 302.0 mysqld\n";
    assert_eq!(read(ps).says, Vec::<String>::new());
    let whole = format!("CPU: 31.5% user,  0.0% nice,  8.2% system,  0.1% interrupt, 60.2% idle\n{bsd}");
    assert_eq!(read(&whole).says, [says.replace(':', ", and 60.2 % of the CPUs are idle:")]);
}

#[test]
fn cpus_that_are_in_the_kernel_more_than_in_programs_are_said_to_be_by_one_tool() {
    let calm: String = VMSTAT.lines().take(3).map(|line| format!("{line}\n")).collect();
    let kernel = calm.replace("5  4 89  2  0", "7 61 27  5  0");
    let wanted = [
        "The CPUs are in the kernel in 61 % of the time, and in programs in 7 %: perf top says in which functions",
    ];
    assert_eq!(read(&kernel).says, wanted);
    let mpstat = "05:10:32 PM  CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest   %idle\n\
                      05:10:33 PM  all    5.00    0.40   55.00    8.00    0.00    1.30    2.00    0.00   28.30\n";
    assert_eq!(read(&format!("{kernel}\n{mpstat}")).says, wanted);
    assert_eq!(read(mpstat).says, [wanted[0].replace("61", "55").replace("7 %", "5 %")]);
    let top = "%Cpu(s):  9.1 us, 51.4 sy,  0.0 ni, 39.0 id,  0.5 wa,  0.0 hi,  0.0 si,  0.0 st\n";
    assert_eq!(read(top).says, [wanted[0].replace("61", "51").replace("7 %", "9 %")]);
    // Programs have more.
    assert_eq!(read(&calm.replace("5  4 89  2  0", "50 40 8  2  0")).says, Vec::<String>::new());
}

#[test]
fn numbers_of_another_tool_below_a_list_of_processes_are_no_process() {
    let top = "%Cpu(s):  3.1 us,  1.9 sy,  0.0 ni,  5.0 id, 89.9 wa,  0.0 hi,  0.1 si,  0.0 st\n\n  \
                   PID USER      PR  NI    VIRT    RES    SHR S  %CPU %MEM     TIME+ COMMAND\n \
                   2211 mysql     20   0   38.1g  28.9g   4112 S  12.0 92.5   9912:11 mysqld\n";
    let found = read(&format!("{top}{VMSTAT}"));
    assert_eq!(
        found.says,
        [
            "The host swaps: 962 KiB/s in, 1204 KiB/s out",
            "16 threads wait for a disk, and the CPUs do nothing else in 91 % of the time",
            "Threads wait for a disk, and the CPUs do nothing else in 90 % of the time",
            "Of the host's memory the server itself has 92 %"
        ]
    );
    // CPUs that wait for a disk are not full, even where another program uses what is left.
    let other = top.replace("mysqld", "rsync");
    assert_eq!(kinds(&other), []);
    assert_eq!(kinds(&other.replace("89.9 wa", "0.0 wa")), [TroubleKind::CpusTaken]);
}

#[test]
fn what_a_quota_stopped_and_what_is_full_is_said() {
    assert_eq!(
        kinds("nr_periods 120000\nnr_throttled 98000\nthrottled_time 82123\n"),
        [TroubleKind::Throttled]
    );
    assert_eq!(kinds("nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"), []);
    let df = "Filesystem      Size  Used Avail Use% Mounted on\n/dev/sda1       100G   99G     0 100% /\n\
                  /dev/loop1       64M   64M     0 100% /snap/core/1\n/dev/sdb1       100G   98G    1G  99% /data\n";
    assert_eq!(read(df).says, ["/ is 100% full", "/data is 99% full"]);
    assert_eq!(kinds(df), [TroubleKind::DiskFull]);
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "(?s)(r b swpd si us id\n|Device %util r/s\n|PID %CPU COMMAND\n|Cpu\\(s\\): |[0-9., \n]|.){0,80}") {
        read(&text);
    }
}

#[test]
fn rows_of_df_without_their_head_are_read() {
    let text = "tmpfs           3.9G     0  3.9G   0% /dev/shm\n/dev/md0         50G   43G  3.8G  93% /\n\
                /dev/md3        394G  374G     0 100% /var/lib/mysql\ntmpfs           798M     0  798M   0% /run/user/0\n";
    let parts = crate::recognise("x", text);
    assert_eq!(parts[0].says, ["/var/lib/mysql is 100% full"], "{parts:?}");
    let quoted = "- Filesystem before: `/dev/longhorn/pvc-e56 7.8G 7.8G 0 100% /var/lib/mysql`.\n";
    let parts = crate::recognise("x", quoted);
    assert_eq!(parts[0].says, ["/var/lib/mysql is 100% full"], "{parts:?}");
    for line in ["we are at 100% /var today", "a 1 2 3 100% var", "/dev/sda1 1 2 3 x% /var"] {
        assert!(!is_row_of_df(line), "{line}");
    }
}

#[test]
fn the_head_of_top_alone_says_that_the_cpus_are_full() {
    let found = read("%Cpu(s): 97.1 us,  2.0 sy,  0.0 ni,  0.9 id,  0.0 wa\n");
    assert_eq!(
        (found.says, found.troubles.len()),
        (vec!["The CPUs are full: 0.9 % of their time is idle".to_owned()], 0)
    );
    assert!(read("%Cpu(s): 47.1 us,  2.0 sy,  0.0 ni, 50.9 id,  0.0 wa\n").says.is_empty());
}

#[test]
fn a_server_that_has_the_host_s_memory_is_named() {
    let text = |percent: &str| {
        format!(
            "              total        used        free      shared  buff/cache   available\n\
             Mem:          32000       31800          90           9         110          60\n\
             Swap:          4000        3900         100\n\n\
             USER       PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n\
             mysql      701  112 {percent} 41234567 30720000 ?   Ssl  Mar02 812:11 /usr/sbin/mariadbd\n"
        )
    };
    let found = read(&text("93.4"));
    assert!(
        found.says.contains(&"Of the host's memory the server itself has 93 %".to_owned()),
        "{:?}",
        found.says
    );
    let full = found.troubles.iter().find(|trouble| trouble.kind == TroubleKind::Swapping);
    assert!(
        full.is_some_and(|full| full.line.ends_with("; the server itself has 93 % of it")),
        "{:?}",
        found.troubles
    );
    assert!(!read(&text("33.4")).says.iter().any(|said| said.contains("the server itself")));
}
