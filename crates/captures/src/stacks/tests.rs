//! Texts of every form, what is read of them, and that damage makes nothing else of them.

use proptest::prelude::*;
use spindoctor_model::stack::{Spin, StackSource, ThreadState};
use spindoctor_model::{Reading, TimeClass, Window};

use super::*;

/// gdb 7 on a server without debug information.
const GDB_OLD: &str = "\
[Thread debugging using libthread_db enabled]
[New Thread 0x7f4d45fef710 (LWP 11148)]
0x00007f4d7d2a4a00 in poll () from /lib64/libc.so.6

Thread 3 (Thread 0x7f4d45fef710 (LWP 11148)):
#0  0x00007f4d7d2a4a00 in pthread_cond_timedwait@@GLIBC_2.3.2 () from /lib64/libpthread.so.0
#1  0x0000000000857ca4 in os_event_wait_time_low ()
#2  0x00007f4d7d29ee9a in start_thread () from /lib64/libpthread.so.0
#3  0x0000000000000000 in ?? ()

Thread 2 (Thread 0x7f4d469f0710 (LWP 11147)):
#0  0x00007f4d7d2a4a00 in __lll_lock_wait () from /lib64/libpthread.so.0
#1  0x00007f4d7d29f4f2 in _L_lock_854 () from /lib64/libpthread.so.0
#2  0x00007f4d7d29f3b9 in pthread_mutex_lock () from /lib64/libpthread.so.0
#3  0x0000000000666c1a in count_statement(THD*) ()
#4  0x0000000000666d1a in dispatch_command(enum_server_command, THD*, char*, unsigned int) ()
#5  0x0000000000666d1b in do_command(THD*) ()

Thread 1 (Thread 0x7f4d81234720 (LWP 11120)):
#0  0x00007f4d7bbc5d13 in poll () from /lib64/libc.so.6
#1  0x00000000005a9e30 in handle_connections_sockets() ()
#2  0x00000000005b0c24 in main ()
";

/// gdb 12 with debug information, `bt full`, and lines that are wrapped.
const GDB_FULL: &str = r#"(gdb) thread apply all bt full

Thread 2 (Thread 0x7f1c2a7fc640 (LWP 4242) "connection"):
#0  __futex_abstimed_wait_common64 (private=0, cancel=true, abstime=0x7f1c2a7f9d80, op=137,
    expected=0, futex_word=0x7f1c0c0031a8) at ./nptl/futex-internal.c:57
        resultvar = 110
#1  0x00007f1c7e8a1b9d in ___pthread_cond_timedwait64 (cond=0x7f1c0c003180, mutex=0x7f1c0c003158)
    at ./nptl/pthread_cond_wait.c:676
No locals.
#2  0x000055d0a1b2c3d4 in native_cond_timedwait (cond=0x7f1c0c003180) at /build/include/thr_cond.h:99
#3  MDL_wait::timed_wait (this=0x7f1c0c003100, owner=0x7f1c0c000ea0, abs_timeout=0x0, set_status_on_timeout=true)
    at /build/sql/mdl.cc:1781
        old_stage = {m_key = 0, m_name = 0x0}
#4  0x000055d0a1b2d000 in std::function<void (int)>::operator()(int) const (this=0x7f1c0c003100, __args=1) at /usr/include/c++/11/bits/std_function.h:590
#5  0x000055d0a1a00000 in dispatch_command (thd=0x7f1c0c000d60, com_data=0x7f1c2a7fb120, command=COM_QUERY,
    packet=0x7f1c0c001230 "INSERT INTO people VALUES ('secret ) at x.cc:1', 7)") at /build/sql/sql_parse.cc:1978
#6  0x000055d0a1a01000 in do_command (thd=0x7f1c0c000d60) at /build/sql/sql_parse.cc:1439

Thread 1 (Thread 0x7f1c7f1c0d80 (LWP 4200) "mysqld"):
#0  0x00007f1c7e91cd7f in __GI___poll (fds=0x55d0a4c1e2a8, nfds=2, timeout=-1) at ../sysdeps/unix/sysv/linux/poll.c:29
#1  0x000055d0a1900000 in main (argc=1) at main.cc:25
(gdb) quit
"#;

const EU_STACK: &str = "\
PID 4200 - process
TID 4200:
#0  0x00007f1c7e91cd7f __poll
#1  0x000055d0a1900000 Mysqld_socket_listener::listen_for_connection_event()
TID 4242:
#0  0x00007f1c7e89e117 __futex_abstimed_wait_common
#1  0x00007f1c7e8a1b9d pthread_cond_timedwait@@GLIBC_2.3.2
#2  0x000055d0a1b2c3d4 - 1 MDL_wait::timed_wait(MDL_context_owner*, timespec*, bool, PSI_stage_info_v1 const*)
#3  0x000055d0a1a00000 dispatch_command(THD*, COM_DATA const*, enum_server_command)
eu-stack: dwfl_thread_getframes tid 4243 at 0x7f1c: no matching address range
";

const COREDUMP: &str = "\
           PID: 77 (mariadbd)
        Signal: 6 (ABRT)

                Stack trace of thread 77:
                #0  0x00007f3a1e2797e9 __futex_abstimed_wait_common (libc.so.6 + 0x6d7e9)
                #1  0x00007f3a1e27c239 pthread_cond_wait@@GLIBC_2.3.2 (libc.so.6 + 0x70239)
                #2  0x0000556d25cad153 _ZN8MDL_wait10timed_waitEP17MDL_context_ownerP8timespecbPK14PSI_stage_info (mariadbd + 0x8e8153)
                #3  0x00007f3a1e44b524 n/a (libstdc++.so.6 + 0x4b524)
                ELF object binary architecture: AMD x86-64
";

const PMP: &str = "\
Sun Jul  1 03:23:22 CEST 2018
     24 __lll_lock_wait,pthread_mutex_lock,count_statement(char,mysql_execute_command(THD*,,dispatch_command(enum_server_command,,do_command(THD*),start_thread,clone
     12 poll(libc.so.6),vio_io_wait(viosocket.c:945),vio_read(viosocket.c:184),do_command(sql_parse.cc:1262),handle_one_connection(sql_connect.cc:1241),start_thread(libpthread.so.0),clone(libc.so.6)
      1 std::this_thread::sleep_for<long,std::ratio<1l,1l>>(this_thread_sleep.h:82),srv_master_thread(srv0srv.cc:3087),start_thread,clone3
";

const FOLDED: &str = "\
mysqld;start_thread;handle_connection;dispatch_command;row_search_mvcc 60
mysqld;start_thread;handle_connection;dispatch_command;pwrite64;entry_SYSCALL_64_after_hwframe_[k];osq_lock_[k] 40
";

const PERF: &str = "\
connection 4200/4242 [003] 123456.789012:     250000 cycles:ppp:
\tffffffff81234567 osq_lock+0x1a5 ([kernel.kallsyms])
\t          a8f8b2 row_search_mvcc+0x32 (/usr/sbin/mysqld)

connection 4200/4243 [002] 123456.789999:     250000 cycles:ppp:
\t          a8f8b2 row_search_mvcc+0x32 (/usr/sbin/mysqld)
";

const REPORT: &str = "\
# Overhead  Command  Shared Object      Symbol
# ........  .......  .................  ......
    84.97%  mysqld   [kernel.kallsyms]  [k] _raw_spin_lock_irqsave
     2.83%  agent    [kernel.kallsyms]  [k] _raw_spin_lock_irqsave
     0.94%  mysqld   [zfs]              [k] dnode_hold_impl
";

const KERNEL: &str = "\
==> /proc/4711/task/4712/stack <==
[<0>] futex_wait_queue+0x6a/0x90
[<0>] do_futex+0x10a/0x4a0
[<0>] __x64_sys_futex+0x6e/0x1d0
";

const CRASH: &str = "\
Attempting backtrace. You can use the following information to find out
/usr/sbin/mysqld(my_print_stacktrace+0x3b)[0xf1dabb]
/usr/sbin/mysqld(handle_fatal_signal+0x4c1)[0x8a1a31]
/lib64/libpthread.so.0(+0xf630)[0x7f2cb1a3e630]
";

const CRASH_84: &str = "\
2024-05-01T10:00:00Z UTC - mysqld got signal 11 ;
 #0 0x1d3d9ff print_fatal_signal at ../../mysql/sql/signal_handler.cc:154
 #1 0x1d3dd5f handle_fatal_signal at ../../mysql/sql/signal_handler.cc:230
 #2 0x7f2cb1a3e630 <unknown>
";

const LLDB: &str = "\
(lldb) thread backtrace all
* thread #1, name = 'mysqld', stop reason = signal SIGSTOP
  * frame #0: 0x00007fff2034ed7f libc.so.6`__poll + 79
    frame #1: 0x0000000100b2c3d4 mysqld`Mysqld_socket_listener::listen_for_connection_event(this=0x01) + 20 at socket_connection.cc:1354:3
  thread #2, name = 'connection'
    frame #0: 0x00007fff2034ed7f libc.so.6`__lll_lock_wait + 79
    frame #1: 0x00007fff2034ed70 libc.so.6`pthread_mutex_lock + 12
    frame #2: 0x0000000100b2c3d4 mysqld`dispatch_command(thd=0x01) + 20
";

/// Each text with its form, its threads and its lines that nothing is known of.
const TEXTS: &[(&str, &str, usize, usize)] = &[
    (GDB_OLD, "gdb backtrace", 3, 0),
    (GDB_FULL, "gdb backtrace", 2, 0),
    (EU_STACK, "eu-stack", 2, 1),
    (COREDUMP, "coredumpctl", 1, 0),
    (PMP, "pt-pmp", 37, 1),
    (FOLDED, "folded CPU samples", 1, 0),
    (PERF, "perf script", 2, 0),
    (REPORT, "perf report", 2, 0),
    (KERNEL, "kernel stacks", 1, 0),
    (CRASH, "crash backtrace", 1, 1),
    (CRASH_84, "crash backtrace", 1, 1),
    (LLDB, "lldb backtrace", 2, 1),
];

/// The functions of a thread or sample, innermost first.
fn names(profile: &Profile, at: usize) -> Vec<&str> {
    let stack = profile.observations[at].stack as usize;
    profile.stacks[stack].frames.iter().map(|&at| profile.frames[at as usize].name.as_str()).collect()
}

fn states(profile: &Profile) -> Vec<ThreadState> {
    profile.observations.iter().map(|one| one.state).collect()
}

#[test]
fn every_form_is_recognised_by_its_content() {
    for &(text, form, threads, not_understood) in TEXTS {
        let read = read(text).unwrap_or_else(|| panic!("{form} is not recognised:\n{text}"));
        assert_eq!(
            (read.form, read.threads, read.lines_not_understood),
            (form, threads, not_understood),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_stack_is_read_as_none() {
    for text in [
        "",
        "hello world",
        "#1 is a duplicate of #2 (see there)\n#3 too (and so on)\n",
        "#1 in the morning\n#2 in progress\n#3 in review\n",
        "Id\tUser\tHost\tdb\tCommand\tTime\tState\tInfo\n12\troot\tlocalhost\tNULL\tQuery\t0\tinit\tSELECT 1, 2\n",
        "[mysqld]\ninnodb_buffer_pool_size = 1G\nsql_mode = STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION\n",
        "      3 STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION\n      1 ANSI,PIPES\n",
        "Threads_running 12\nQueries 1,200\n",
        "SELECT a;b;c 12\n",
        "--Thread 281422091242112 has waited at buf0buf.cc line 5406 for 0 seconds the semaphore:\nMutex at 0xffff66040050, Mutex BUF_POOL_LRU_LIST created buf0buf.cc:1231, locked by 281415897959040\n",
        "PID USER %CPU\n 99.5% mysqld\n",
    ] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn frames_have_the_names_of_our_own_stacks_and_no_arguments() {
    let read = read(GDB_FULL).unwrap();
    assert_eq!(
        names(&read.profile, 0),
        [
            "__futex_abstimed_wait_common64",
            "___pthread_cond_timedwait64",
            "native_cond_timedwait",
            "MDL_wait::timed_wait",
            "std::function::operator()",
            "dispatch_command",
            "do_command"
        ]
    );
    assert_eq!(states(&read.profile), [ThreadState::Lock, ThreadState::NetworkIdle]);
    let frame = &read.profile.frames[3];
    assert_eq!((&frame.location, frame.inlined), (&Some(("/build/sql/mdl.cc".to_owned(), 1781)), true));
    assert!(!format!("{read:?}").contains("secret"));
    let thread = &read.profile.threads[0];
    assert_eq!(
        (thread.tid, thread.name.as_str(), thread.thread_pointer),
        (4242, "connection", Some(0x7f1c_2a7f_c640))
    );
}

#[test]
fn functions_without_a_name_are_known_by_their_file() {
    let read = read(COREDUMP).unwrap();
    assert_eq!(
        names(&read.profile, 0),
        [
            "__futex_abstimed_wait_common",
            "pthread_cond_wait",
            "MDL_wait::timed_wait",
            "libstdc++.so.6+0x4b524"
        ]
    );
    assert_eq!(read.profile.process.name, "mariadbd");
}

#[test]
fn the_blank_behind_a_frame_s_number_may_be_lost() {
    let pasted: String =
        (0..3).fold(COREDUMP.to_owned(), |text, at| text.replace(&format!("#{at}  0x"), &format!("#{at}0x")));
    assert_eq!(
        names(&read(&pasted).unwrap().profile, 0)[..3],
        names(&read(COREDUMP).unwrap().profile, 0)[..3]
    );
}

#[test]
fn frames_of_which_a_page_left_the_addresses_out_have_their_names() {
    let text = "#0  in nanosleep from /lib64/libpthread.so.0\n#1  in srv_conc_enter_innodb\n#2  in ha_innobase::index_read\n\
                #3  in mysql_execute_command\n#4  in dispatch_command\n";
    let read = read(text).unwrap();
    assert_eq!((read.form, read.threads, read.lines_not_understood), ("gdb backtrace", 1, 0));
    assert_eq!(
        names(&read.profile, 0)[..3],
        ["nanosleep", "srv_conc_enter_innodb", "ha_innobase::index_read"]
    );
}

#[test]
fn what_a_thread_did_is_not_known_by_its_outer_functions_alone() {
    let outer = |first: u32| {
        let names = ["sub_select", "JOIN::exec", "mysql_execute_command", "dispatch_command"];
        let frames =
            (first..).zip(names).map(|(at, name)| format!("#{at}  0x7f{at} in {name} () at sql/a.cc:{at}\n"));
        format!("Thread 2 (LWP 12):\n{}", frames.collect::<String>())
    };
    let says = |text: &str| {
        crate::recognise("a.txt", text).into_iter().flat_map(|part| part.says).collect::<Vec<_>>().join("; ")
    };
    let without = read(&outer(28)).unwrap();
    assert_eq!(
        (without.threads, without.profile.observations.len(), without.profile.snapshots.len()),
        (1, 0, 0)
    );
    let note =
        "1 thread is without the innermost functions: what was done or waited for there is not in the text";
    assert_eq!(without.profile.notes, [note]);
    assert!(says(&outer(28)).contains(note), "{}", says(&outer(28)));
    assert_eq!(states(&read(&outer(0)).unwrap().profile), [ThreadState::Running]);
    // One of those that are there may wait.
    let waits = outer(28).replace("sub_select", "MDL_wait::timed_wait");
    assert_eq!(states(&read(&waits).unwrap().profile), [ThreadState::Lock]);
    assert!(!says(&waits).contains(note));
}

#[test]
fn the_frames_of_quickstack_are_counted_from_one() {
    let text = "Thread 2 (LWP 41):\n#01  0x00007fa6d6ab6b1d in fdatasync () from /lib64/libc-2.17.so\n\
                #02  0x0000000000e6be0c in MYSQL_BIN_LOG::ordered_commit () from /usr/sbin/mysqld\n\
                #03  0x0000000000d2be0c in do_command () from /usr/sbin/mysqld\n";
    let read = read(text).unwrap();
    assert_eq!(states(&read.profile), [ThreadState::Sync]);
    assert_eq!(read.profile.notes, Vec::<String>::new());
}

#[test]
fn a_thread_that_comes_again_begins_a_snapshot() {
    let twice = format!("{GDB_OLD}\n{GDB_OLD}");
    let read = read(&twice).unwrap();
    assert_eq!((read.profile.snapshots.len(), read.profile.threads.len(), read.threads), (2, 3, 6));
}

#[test]
fn pt_pmp_counts_threads_and_its_templates_stay_in_one() {
    let read = read(PMP).unwrap();
    assert_eq!(read.profile.observations.len(), 37);
    assert_eq!(
        names(&read.profile, 0)[..4],
        ["__lll_lock_wait", "pthread_mutex_lock", "count_statement", "mysql_execute_command"]
    );
    assert_eq!(
        names(&read.profile, 36),
        ["std::this_thread::sleep_for", "srv_master_thread", "start_thread", "clone3"]
    );
    assert_eq!(states(&read.profile)[24], ThreadState::NetworkIdle);
}

#[test]
fn functions_that_somebody_left_out_of_a_line_are_none_of_it() {
    let text = "12 pthread_cond_wait,...,os_event_wait_low(os0event.cc:310),buf_dblwr_add_to_batch(buf0dblwr.cc:901),...,clone\n\
                3 libaio::??(libaio.so.1),LinuxAIOHandler::collect(os0file.cc:2031),...\n";
    let pmp = read(text).unwrap();
    assert_eq!((pmp.form, pmp.threads, pmp.lines_not_understood), ("pt-pmp", 15, 0));
    let waits = ["pthread_cond_wait", "os_event_wait_low", "buf_dblwr_add_to_batch", "clone"];
    assert_eq!(names(&pmp.profile, 0), waits);
    let folded = "mysqld;clone;...;buf_dblwr_add_to_batch;os_event_wait_low;...;pthread_cond_wait 12\n";
    assert_eq!(names(&read(folded).unwrap().profile, 0), waits);
}

#[test]
fn samples_that_spin_in_the_kernel_are_known_with_their_program() {
    let read = read(REPORT).unwrap();
    assert_eq!(read.profile.source, StackSource::Cpu);
    let spins = |name: &str| {
        let of = |one: &&spindoctor_model::stack::Observation| {
            one.spin == Some(Spin::Kernel) && read.profile.threads[one.thread as usize].name == name
        };
        read.profile.samples().iter().filter(of).count()
    };
    assert_eq!((spins("mysqld"), spins("agent")), (8497, 283));
    assert!(read.profile.modules.iter().any(|module| module.path == "[zfs]"));
}

/// A window of what was read, and of nothing else.
fn window(text: &str) -> Window {
    let profile = read(text).unwrap().profile;
    Window { profile: Reading::Available { at_s: 0.0, took_ms: 0.0, value: profile }, ..Window::default() }
}

#[test]
fn one_snapshot_gives_an_account_and_names_who_takes_an_unknown_mutex() {
    for text in [PMP.to_owned(), GDB_OLD.to_owned()] {
        let time = spindoctor_rules::session_time(&window(&text)).unwrap();
        assert_eq!(time.classes[0].class, TimeClass::Mutex);
        assert!(time.classes[0].seen[0].0.starts_with("count_statement"), "{time:?}");
        let diagnosis = spindoctor_rules::diagnose(&window(&text));
        assert_eq!(diagnosis.findings[0].cause, "unnamed-wait");
        let shown = format!("{:?}", diagnosis.findings[0].evidence);
        assert!(shown.contains("count_statement"), "{shown}");
    }
}

#[test]
fn a_crash_is_no_account_of_time() {
    for text in [CRASH, CRASH_84] {
        let read = read(text).unwrap();
        assert!(read.profile.observations.is_empty() && !read.profile.stacks.is_empty());
        assert_eq!(spindoctor_rules::session_time(&window(text)), None);
    }
}

#[test]
fn what_our_own_formats_write_is_read_as_it_was() {
    use spindoctor_profile::formats::FORMATS;
    use spindoctor_profile::{Choice, View};
    let gdb = FORMATS.iter().find(|format| format.name == "gdb").unwrap();
    for text in [GDB_OLD, GDB_FULL, COREDUMP] {
        let first = read(text).unwrap();
        let view = View::new(&first.profile, &Choice::default()).unwrap();
        let written =
            String::from_utf8((gdb.render)(&view, spindoctor_page::text::Look::of_file()).unwrap()).unwrap();
        let again = read(&written).unwrap_or_else(|| panic!("{written}"));
        assert_eq!((again.threads, again.lines_not_understood), (first.threads, 0), "{written}");
        // It prints the highest number first.
        let mut stacks: Vec<_> = (0..again.threads).map(|at| names(&again.profile, at)).collect();
        stacks.reverse();
        let expected: Vec<_> = (0..first.threads).map(|at| names(&first.profile, at)).collect();
        assert_eq!(stacks, expected);
    }
}

/// What pages, terminals and people do to a text.
fn damaged(text: &str, kind: u8, at: usize) -> String {
    let cut = text.floor_char_boundary(at % (text.len() + 1));
    match kind % 8 {
        0 => text[..cut].to_owned(),
        1 => text[cut..].to_owned(),
        2 => text.replace('\n', "\r\n"),
        3 => text.lines().map(|line| format!("    {line}\n")).collect(),
        4 => text
            .lines()
            .flat_map(|line| {
                line.as_bytes().chunks(1 + at % 120).map(|part| String::from_utf8_lossy(part) + "\n")
            })
            .collect(),
        5 => text.lines().map(|line| format!("{}\n", line.trim_start())).collect(),
        6 => format!("{}\u{fffd}\u{0}{}", &text[..cut], &text[cut..]),
        _ => text
            .lines()
            .enumerate()
            .filter(|(line, _)| line % (2 + at % 7) != 0)
            .map(|(_, line)| format!("{line}\n"))
            .collect(),
    }
}

proptest! {
    #[test]
    fn damage_never_panics_and_makes_no_other_kind_of_it(which in 0..TEXTS.len(), kind: u8, at in 0_usize..4_000) {
        let (text, form, ..) = TEXTS[which];
        if let Some(found) = read(&damaged(text, kind, at)) {
            let backtraces = ["gdb backtrace", "eu-stack", "coredumpctl", "lldb backtrace", "crash backtrace"];
            let samples = ["folded CPU samples", "folded stacks"];
            let is_same = [&backtraces[..], &samples[..], &[form]]
                .iter()
                .any(|kinds| kinds.contains(&form) && kinds.contains(&found.form));
            prop_assert!(is_same, "{form} is read as {}", found.form);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "([#0-9a-zA-Z ();,:<>\\[\\]%+|`-]|0x|\n|#0  0x1 in |[.] | in |\t){0,200}") {
        let _ = read(&text);
    }
}

#[test]
fn the_tail_of_a_frame_is_no_line_of_pt_pmp() {
    // A clipboard that begins within `#2  0x... - 1 MDL_wait::timed_wait(...)`.
    let at = EU_STACK.find("1 MDL_wait").unwrap();
    assert_ne!(read(&EU_STACK[at..]).map(|found| found.form), Some("pt-pmp"));
}

#[test]
fn indentation_and_line_ends_change_nothing() {
    for &(text, form, threads, _) in TEXTS {
        for kind in [2, 3] {
            // A sample's frames are known by their indentation nowhere: only a report's graph is, and that keeps its own.
            let read = read(&damaged(text, kind, 0)).unwrap_or_else(|| panic!("{form} {kind}"));
            assert_eq!((read.form, read.threads), (form, threads), "{kind}");
        }
    }
}

mod shared_fixtures {
    use std::io::Read as _;
    use std::path::Path;

    use super::*;

    fn text(path: &Path) -> String {
        let bytes = std::fs::read(path).unwrap();
        if path.extension().is_some_and(|ending| ending == "gz") {
            let mut text = Vec::new();
            flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap();
            return String::from_utf8_lossy(&text).into_owned();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How many threads pt-pmp counted in each of its files.
    #[test]
    fn as_many_threads_are_read_as_pt_pmp_counts() {
        let Some(folder) = spindoctor_corpus::shared("fixtures/stacks") else { return };
        for (input, output, form) in [
            ("pt-pmp-stacktrace001.in.gz", "pt-pmp-stacktrace001.out", "gdb backtrace"),
            ("pt-pmp-stacktrace004.in", "pt-pmp-stacktrace004.out", "gdb backtrace"),
            ("pt-pmp-stacktrace006-gdb.in", "pt-pmp-stacktrace006-gdb.out", "gdb backtrace"),
            ("pt-pmp-stacktrace006-pteu.in", "pt-pmp-stacktrace006-pteu.out", "gdb backtrace"),
        ] {
            let (input, output) = (text(&folder.join(input)), text(&folder.join(output)));
            let (stacks, counts) = (read(&input).unwrap(), read(&output).unwrap());
            assert_eq!((stacks.form, stacks.lines_not_understood), (form, 0));
            assert_eq!((counts.form, counts.lines_not_understood), ("pt-pmp", 0));
            assert_eq!(stacks.threads, counts.threads);
            let running = |profile: &Profile| {
                states(profile).iter().filter(|&&state| state == ThreadState::Running).count()
            };
            assert_eq!(running(&stacks.profile), running(&counts.profile));
        }
    }

    #[test]
    fn cases_say_what_a_good_answer_says() {
        let Some(folder) = spindoctor_corpus::shared("cases") else { return };
        let case = |name: &str| text(&folder.join(name));
        let pmp = case("A18-pmp-get-db-stats.txt");
        assert_eq!(read(&pmp).map(|read| (read.form, read.threads)), Some(("pt-pmp", 24)));
        let finding = &spindoctor_rules::diagnose(&window(&pmp)).findings[0];
        assert_eq!(finding.cause, "unnamed-wait");
        assert!(format!("{:?}", finding.evidence).contains("get_db_stats"), "{:?}", finding.evidence);

        for name in ["A19-coredumpctl-mariadbd-11.txt", "A19b-coredumpctl-mariadbd-11-spaced.txt"] {
            let read = read(&case(name)).unwrap();
            assert_eq!((read.form, read.threads, read.lines_not_understood), ("coredumpctl", 3, 0));
            assert!(names(&read.profile, 0).contains(&"tpool::thread_pool_generic::wait_for_tasks"));
            assert_eq!(states(&read.profile), [ThreadState::Condition; 3]);
        }

        let spin = read(&case("A11-perf-zfs-spin.txt")).unwrap();
        assert_eq!(spin.form, "perf report");
        for other in [
            "A15-errorlog-deadlock-of-threads-8.0.41.txt",
            "A06-status-autoinc-5.7.20.txt",
            "C09-my-cnf-qmark-includedir.txt",
        ] {
            assert_eq!(read(&case(other)), None, "{other}");
        }
    }

    /// No text of another kind in the collection is read as stacks.
    #[test]
    fn other_kinds_are_read_as_none() {
        let Some(folder) = spindoctor_corpus::shared("fixtures") else { return };
        for kind in [
            "diskstats",
            "innodb_status",
            "mycnf",
            "processlist",
            "replica_status",
            "slowlog",
            "status",
            "variables",
        ] {
            for entry in std::fs::read_dir(folder.join(kind)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    assert_eq!(read(&text(&path)).map(|read| read.form), None, "{}", path.display());
                }
            }
        }
    }
}

#[test]
fn a_list_of_threads_of_another_program_is_refused_by_their_names() {
    let says = |first: &str, others: &str| {
        let line = |at: u32, name: &str, frame: &str| {
            format!(
                "  {at}    Thread 0x7f2a4c1e97{at}0 (LWP 47{at}1) \"{name}\" 0x00007f2a4b0a1c3d in {frame} () from /lib64/libc.so.6\n"
            )
        };
        let text = format!(
            "(gdb) info threads\n  Id   Target Id         Frame\n{}{}{}",
            line(31, others, "__lll_lock_wait"),
            line(21, others, "__lll_lock_wait"),
            line(11, first, "poll")
        );
        let parts = crate::recognise("a.txt", &text);
        assert!(parts.iter().any(|part| part.kind == crate::Kind::Stacks), "{parts:?}");
        parts.into_iter().flat_map(|part| part.says).collect::<Vec<_>>().join("; ")
    };
    let other = says("indexd", "worker_7");
    assert!(other.contains("they are of indexd, not of a server"), "{other}");
    for (first, others) in [("mysqld", "worker_7"), ("indexd", "connection"), ("mysqld-8.0", "mysqld-8.0")] {
        assert!(!says(first, others).contains("not of a server"), "{first}");
    }
}
