//! Hand-made profiles that exercise everything a format must show.

use jiff::Timestamp;
use jiff::civil::date;
use jiff::tz::TimeZone;
use spindoctor_model::host::{CpuModel, PauseLatency};
use spindoctor_model::stack::{
    Activity, Code, CycleCount, Frame, Module, Observation, ProfiledProcess, ProfiledThread, SnapshotCost,
    Spin, Stack, StackEnd, StackSource, ThreadState, Work,
};
use spindoctor_model::{Machine, Profile};

const MYSQLD: u32 = 0;
const LIBC: u32 = 1;
const KERNEL: u32 = 2;

/// Builds a profile: what is said twice is kept once.
struct Maker(Profile);

impl Maker {
    fn new() -> Self {
        let module = |path: &str, id: &str| Module { path: path.to_owned(), build_id: Some(id.to_owned()) };
        Self(Profile {
            process: ProfiledProcess {
                pid: 4310,
                name: "mysqld".to_owned(),
                program: "/usr/sbin/mysqld".to_owned(),
                server: "MySQL 9.7.4 on db17".to_owned(),
            },
            source: StackSource::Bpf,
            start: half_past_nine(),
            seconds: 10.0,
            hz: 10.0,
            modules: vec![
                module("/usr/sbin/mysqld", "a1b2c3d4"),
                module("/usr/lib/x86_64-linux-gnu/libc.so.6", "e5f6"),
                module("[kernel]", ""),
            ],
            own_cpu_us: 380_000,
            process_cpu_us: 4_200_000,
            server_queries: 22,
            server_busy_ms: 31.0,
            machine: machine(),
            code: vec![Code::new(MYSQLD, 0x10_0000, "x86_64", &DELAY)],
            work: Some(Work { seconds: 10.0, queries: 12_340, cpu_us: Some(4_150_000) }),
            cycles: Some(CycleCount { seconds: 10.0, cycles: 11_600_000_000, instructions: 4_100_000_000 }),
            ..Profile::default()
        })
    }

    fn thread(&mut self, tid: u32, name: &str) -> u32 {
        self.0.threads.push(ProfiledThread { tid, name: name.to_owned(), ..ProfiledThread::default() });
        self.0.threads.len() as u32 - 1
    }

    fn activity(&mut self, activity: Activity) -> u32 {
        self.0.activities.push(activity);
        self.0.activities.len() as u32 - 1
    }

    fn frame(&mut self, name: &str) -> u32 {
        let (name, inlined) = match name.strip_prefix("inl:") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let (name, kernel) = match name.strip_prefix("krn:") {
            Some(name) => (name, true),
            None => (name, false),
        };
        if let Some(at) = self.0.frames.iter().position(|frame| frame.name == name) {
            return at as u32;
        }
        let module = match name {
            _ if kernel => KERNEL,
            "start_thread" | "clone3" | "pthread_cond_wait" | "futex_wait" | "poll" => LIBC,
            _ => MYSQLD,
        };
        self.0.frames.push(Frame {
            module: Some(module),
            address: 0x10_0000 + 0x40 * self.0.frames.len() as u64,
            name: name.to_owned(),
            full_name: name.contains("::").then(|| format!("{name}(THD*, unsigned long)")),
            location: inlined.then(|| ("storage/innobase/include/ut0ut.h".to_owned(), 251)),
            inlined,
            kernel,
        });
        self.0.frames.len() as u32 - 1
    }

    /// Functions from the innermost outwards, separated by ` < `.
    fn stack(&mut self, functions: &str, end: StackEnd) -> u32 {
        let names = functions.split(" < ").filter(|name| !name.is_empty());
        let frames = names.map(|name| self.frame(name)).collect();
        let stack = Stack { frames, end };
        if let Some(at) = self.0.stacks.iter().position(|known| *known == stack) {
            return at as u32;
        }
        self.0.stacks.push(stack);
        self.0.stacks.len() as u32 - 1
    }

    fn snapshots(&mut self, count: u32, threads: u32) {
        for at in 0..count {
            self.0.snapshots.push(SnapshotCost {
                at_us: u64::from(at) * 100_000,
                capture_us: 1_100 + u64::from(at % 7) * 100,
                snapshot_us: 4_200 + u64::from(at % 5) * 300,
                threads,
                unmoved: 1,
                ..SnapshotCost::default()
            });
        }
    }

    fn seen(&mut self, snapshot: u32, thread: u32, stack: u32, state: ThreadState, activity: Option<u32>) {
        let seen = Observation { snapshot, thread, stack, state, activity, ..Observation::default() };
        self.0.observations.push(seen);
    }

    fn ran(&mut self, snapshot: u32, thread: u32, stack: u32, spin: Option<Spin>) {
        let state = ThreadState::Running;
        let seen = Observation { snapshot, thread, stack, state, spin, ..Observation::default() };
        self.0.cpu_samples.push(seen);
    }
}

/// `xor %eax, %eax; pause; add $1, %rax; cmp %rdi, %rax; jne` to the PAUSE; `ret`.
const DELAY: [u8; 14] = [0x31, 0xc0, 0xf3, 0x90, 0x48, 0x83, 0xc0, 0x01, 0x48, 0x39, 0xf8, 0x75, 0xf5, 0xc3];

/// CPU samples in the loop of a delay, most of them behind its PAUSE.
pub fn spinning() -> Profile {
    let mut make = Maker::new();
    make.snapshots(1, 1);
    let thread = make.thread(4351, "connection");
    for (address, count) in [(0x10_0002, 6), (0x10_0004, 30), (0x10_000b, 4)] {
        make.0.frames.push(Frame {
            module: Some(MYSQLD),
            address,
            name: "ut_delay".to_owned(),
            ..Frame::default()
        });
        let leaf = make.0.frames.len() as u32 - 1;
        make.0.stacks.push(Stack { frames: vec![leaf], end: StackEnd::Root });
        let stack = make.0.stacks.len() as u32 - 1;
        for _ in 0..count {
            make.ran(0, thread, stack, Some(Spin::User));
        }
    }
    make.0
}

fn machine() -> Machine {
    Machine {
        cpu: Some(CpuModel {
            name: "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz".to_owned(),
            microarchitecture: Some("Skylake-SP".to_owned()),
            vendor: "GenuineIntel".to_owned(),
            family_model: Some((6, 85)),
            virtualised: false,
        }),
        cpus: Some(16),
        quota_cpus: Some(8.0),
        pause: Some(PauseLatency {
            instruction: "pause".to_owned(),
            ns: 47.1,
            core_cycles: Some(140.0),
            tsc_ticks: Some(99.0),
            per_cpu_ns: vec![(0, 47.0), (15, 47.2)],
            cost_ms: 2.1,
        }),
        kernel: Some("3.10.0-229.el7.x86_64".to_owned()),
    }
}

const WORKER: &str =
    "mysql_execute_command < dispatch_command < do_command < handle_connection < start_thread < clone3";

fn connection(id: u64, user: &str, statement: Option<&str>) -> Activity {
    Activity {
        connection_id: Some(id),
        user: Some(user.to_owned()),
        host: Some("app1".to_owned()),
        database: Some("sbtest".to_owned()),
        command: Some(if statement.is_some() { "Query" } else { "Sleep" }.to_owned()),
        state: statement.map(|_| "waiting for handler commit".to_owned()),
        statement: statement.map(str::to_owned),
        digest_text: statement.map(|_| "UPDATE `sbtest1` SET `k` = `k` + ? WHERE `id` = ?".to_owned()),
    }
}

/// Twenty snapshots of four threads: commits that wait and spin, a page cleaner, an idle connection.
pub fn busy() -> Profile {
    busy_of(20, 3)
}

/// The same for twice as long.
pub fn busy_twice() -> Profile {
    busy_of(40, 3)
}

/// The same with the waiting gone.
pub fn calmer() -> Profile {
    let mut profile = busy_of(20, 1);
    profile.work = Some(Work { seconds: 10.0, queries: 19_800, cpu_us: Some(4_100_000) });
    profile.machine.kernel = Some("4.18.0-553.el8.x86_64".to_owned());
    if let Some(pause) = &mut profile.machine.pause {
        (pause.ns, pause.core_cycles) = (14.2, Some(44.0));
    }
    profile
}

fn busy_of(snapshots: u32, spared: u32) -> Profile {
    let mut make = Maker::new();
    make.snapshots(snapshots, 4);
    let threads = [4351, 4352, 4353].map(|tid| make.thread(tid, "connection"));
    let cleaner = make.thread(4320, "ib_pg_flush_co");
    let update = "UPDATE sbtest1 SET k=k+1 WHERE id=5001";
    let activities = [
        make.activity(connection(12, "app", Some(update))),
        make.activity(connection(13, "batch", Some(update))),
        make.activity(connection(14, "app", None)),
    ];
    let commit = format!("trans_commit_stmt < {WORKER}");
    let wait = make.stack(
        &format!("krn:futex_wait_queue < futex_wait < pthread_cond_wait < os_event::wait_low < log_write_up_to < {commit}"),
        StackEnd::Root,
    );
    let search = make.stack(
        &format!("rec_get_offsets_func < btr_cur_search_to_nth_level < row_search_mvcc < ha_innobase::index_read < {WORKER}"),
        StackEnd::Root,
    );
    let spin = make.stack(&format!("inl:ut_delay < log_write_up_to < {commit}"), StackEnd::Root);
    let idle = make.stack(
        "krn:do_sys_poll < poll < vio_io_wait < do_command < handle_connection < start_thread < clone3",
        StackEnd::Root,
    );
    let flush = make.stack(
        "futex_wait < pthread_cond_wait < os_event::wait_time_low < buf_flush_page_coordinator_thread < start_thread < clone3",
        StackEnd::Cut("no unwind information at mysqld+0x2a68b1d".to_owned()),
    );
    let unread = make.stack("", StackEnd::None("it ran while it was read".to_owned()));
    for at in 0..snapshots {
        let (first, state) = match at % spared {
            0 => (search, ThreadState::Running),
            _ => (wait, ThreadState::Lock),
        };
        make.seen(at, threads[0], first, state, Some(activities[0]));
        make.seen(at, threads[1], if at % 10 == 9 { unread } else { first }, state, Some(activities[1]));
        make.seen(at, threads[2], idle, ThreadState::NetworkIdle, Some(activities[2]));
        make.seen(at, cleaner, flush, ThreadState::Condition, None);
        make.ran(at, threads[0], spin, Some(Spin::User));
        for _ in 0..3 {
            make.ran(at, threads[1], search, None);
        }
    }
    make.0.notes.push("the bpf source needs a kernel with BTF".to_owned());
    make.0
}

/// Two snapshots of two threads that wait for latches, without CPU samples.
pub fn contended() -> Profile {
    let mut make = Maker::new();
    make.snapshots(2, 2);
    let threads = [4351, 4352].map(|tid| make.thread(tid, "connection"));
    let waits = "futex_wait < pthread_cond_wait < os_event::wait_low < sync_array_wait_event";
    let segment = make.stack(
        &format!("{waits} < TTASEventMutex::wait < trx_undo_assign_undo < row_upd_step < {WORKER}"),
        StackEnd::Root,
    );
    let page = make.stack(
        &format!("{waits} < rw_lock_s_lock_spin < Buf_fetch::single_page < row_search_mvcc < {WORKER}"),
        StackEnd::Root,
    );
    for at in 0..2 {
        make.seen(at, threads[0], segment, ThreadState::Lock, None);
        let second = if at == 0 { page } else { make.stack(WORKER, StackEnd::Root) };
        let state = if at == 0 { ThreadState::Lock } else { ThreadState::Running };
        make.seen(at, threads[1], second, state, None);
    }
    make.0
}

/// One thread in a function that calls itself.
pub fn recursive() -> Profile {
    let mut make = Maker::new();
    make.snapshots(1, 1);
    let thread = make.thread(1, "main");
    let stack = make.stack("again < again < again < main", StackEnd::Root);
    make.seen(0, thread, stack, ThreadState::Running, None);
    make.0
}

/// What a crafted binary and a hostile client can put into names.
pub fn hostile() -> Profile {
    let mut make = Maker::new();
    make.snapshots(1, 1);
    let thread = make.thread(7, "x\u{1b}]2;owned\u{7};y\n");
    let activity = make.activity(connection(
        1,
        "<script>alert(1)</script>",
        Some("SELECT '\u{202e}]]></style>\u{1b}[2J' FROM `a\"b;c`"),
    ));
    let stack = make.stack(
        "</title><script>document.title='owned'</script> < f\u{1b}[31m;g 5 < q\"uo\\te\u{202e}d & co < n\new\tline < 🐬",
        StackEnd::Cut("<b>]]>".to_owned()),
    );
    make.seen(0, thread, stack, ThreadState::Running, Some(activity));
    make.ran(0, thread, stack, Some(Spin::Kernel));
    make.0.process.server = "MySQL <9>\u{1b}[2J".to_owned();
    make.0
}

fn half_past_nine() -> Timestamp {
    date(2026, 7, 1).at(9, 30, 0, 0).to_zoned(TimeZone::UTC).map(|at| at.timestamp()).unwrap_or_default()
}
