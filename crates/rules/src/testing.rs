//! Windows for tests: a healthy busy server, and the ways to spoil it.

use spindoctor_model::host::{
    CpuTimes, DiskStat, EffectiveCpus, MemoryStat, NumaNode, OtherProgram, OtherPrograms, PauseLatency,
    ProcessStat, Quota, SrvCpuUsage, ThreadStat, Throttling,
};
use spindoctor_model::mysql::{
    ErrorCount, ErrorSummary, FileSummary, InnodbMetric, NamedValues, ServerThread, StatementDigest,
    Transaction, WaitSummary,
};
use spindoctor_model::page_cache::{CachedFiles, PageCache};
use spindoctor_model::stack::{
    Frame, Observation, ProfiledThread, SnapshotCost, Spin, Stack, StackEnd, ThreadState,
};
use spindoctor_model::{
    HostSample, InnodbStatus, NoSession, NoSessionKind, Profile, Reading, Sample, ServerSample,
    ServerVersion, Unavailable, Window,
};

/// Seconds that a built window covers, with a sample at each.
pub(crate) const SECONDS: usize = 10;

/// Rows of one execution of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) examined: f64,
    pub(crate) sent: f64,
}

/// A window in the making.
pub(crate) struct Build(Window);

/// An answer of that time.
pub(crate) fn answer<T>(at_s: f64, value: T) -> Reading<T> {
    Reading::Available { at_s, took_ms: 1.0, value }
}

/// A client session.
pub(crate) fn session(connection_id: u64, command: &str, state: &str, statement: &str) -> ServerThread {
    ServerThread {
        internal_id: Some(connection_id + 40),
        connection_id: Some(connection_id),
        thread_os_id: Some(connection_id + 4000),
        name: "thread/sql/one_connection".into(),
        is_connection: true,
        user: "app".into(),
        command: command.into(),
        state: state.into(),
        statement: (!statement.is_empty()).then(|| statement.to_owned()),
        time_s: 3.0,
        ..ServerThread::default()
    }
}

/// An open transaction.
pub(crate) fn transaction(connection_id: u64, state: &str, age_s: f64) -> Transaction {
    Transaction {
        id: (connection_id + 9000).to_string(),
        connection_id: Some(connection_id),
        state: state.into(),
        age_s,
        rows_modified: 1,
        ..Transaction::default()
    }
}

impl Build {
    /// A server of which only the process list is read, with so many sessions in a state in each list.
    pub(crate) fn waiting(count: u64, state: &'static str) -> Self {
        let sessions = move |_| (0..count).map(|at| session(20 + at, "Query", state, "SELECT 1")).collect();
        Self::busy("8.0.36").sessions(sessions).remote().without_profile()
    }

    /// A healthy busy server on a host with four CPUs: 400 transactions a second from sixteen
    /// sessions, half of its CPU used, logs synced in 50 us, every source answering.
    pub(crate) fn busy(version: &str) -> Self {
        let version = ServerVersion::parse(version, "").unwrap();
        let mut window = Window {
            samples: (0..=SECONDS).map(|at| Sample { at_s: at as f64, ..Sample::default() }).collect(),
            ..Window::default()
        };
        window.server.version = Some(version);
        window.server.pid = Some(4310);
        window.server.own_connection_id = Some(99);
        let mut build = Self(window)
            .each(|at_s, server, host| {
                server.status = answer(at_s, NamedValues::default());
                server.variables = answer(at_s, NamedValues::default());
                server.innodb_metrics = answer(at_s, [].into());
                server.innodb_status = answer(at_s, InnodbStatus::default());
                server.transactions = answer(at_s, Vec::new());
                server.metadata_locks = answer(at_s, Vec::new());
                server.row_lock_waits = answer(at_s, Vec::new());
                server.waits = answer(at_s, Vec::new());
                server.digests = answer(at_s, Vec::new());
                server.replication = answer(at_s, Vec::new());
                host.process = answer(
                    at_s,
                    ProcessStat {
                        state: "S".into(),
                        threads: 60,
                        user_us: (at_s * 1.6e6) as u64,
                        system_us: (at_s * 0.2e6) as u64,
                        ..ProcessStat::default()
                    },
                );
                host.effective_cpus = answer(
                    at_s,
                    EffectiveCpus { cpus: 4.0, online: 4, affinity: Some(4), ..EffectiveCpus::default() },
                );
                host.pause = answer(at_s, PauseLatency { ns: 10.9, ..PauseLatency::default() });
                host.numa = answer(at_s, vec![NumaNode { total_bytes: 64 << 30, ..NumaNode::default() }]);
            })
            .counted_cpus(4, 160.0)
            .host_cpu(2.2, 1.8)
            .runs(1.8, 0.3)
            .disk(500.0, 30.0, 20.0)
            .logs_cached(1 << 30, 1 << 30)
            .cpu_samples(1000, 0.01, &["ut_delay", "rw_lock_s_lock_spin", "btr_cur_search_to_nth_level"])
            .sessions(|at| {
                let state = if at.is_multiple_of(5) { "waiting for handler commit" } else { "executing" };
                let mut sessions =
                    vec![session(11, "Query", state, "UPDATE sbtest1 SET k = k + 1 WHERE id = 7")];
                sessions.extend((12..27).map(|id| session(id, "Sleep", "", "")));
                sessions
            })
            .digest("SELECT c FROM sbtest1 WHERE id = ?", 4000.0, 120.0, 1.0, 1.0)
            .digest("SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?", 400.0, 200.0, 100.0, 1.0)
            .digest("UPDATE sbtest1 SET k = k + ? WHERE id = ?", 400.0, 250.0, 1.0, 1.0)
            .digest_scans(
                "SELECT * FROM performance_schema.threads",
                1.0,
                900.0,
                Rows { examined: 3000.0, sent: 60.0 },
                1.0,
            );
        for (name, per_s) in [
            ("Questions", 6000.0),
            ("Connections", 0.2),
            ("Threads_created", 0.0),
            ("Aborted_connects", 0.0),
            ("Connection_errors_max_connections", 0.0),
            ("Com_commit", 400.0),
            ("Com_select", 4400.0),
            ("Com_insert", 0.0),
            ("Com_update", 400.0),
            ("Com_delete", 0.0),
            ("Innodb_row_lock_waits", 3.0),
            ("Innodb_row_lock_time", 12.0),
            ("Innodb_rows_read", 50_000.0),
            ("Innodb_buffer_pool_reads", 5.0),
            ("Innodb_data_fsyncs", 330.0),
            ("Innodb_os_log_written", 700_000.0),
            ("Handler_read_rnd_next", 3000.0),
            ("Select_scan", 2.0),
            ("Rows_sent", 44_000.0),
            ("Opened_tables", 0.1),
            ("Table_open_cache_hits", 4900.0),
            ("Table_open_cache_misses", 0.1),
        ] {
            build = build.counter(name, per_s);
        }
        // A framework that inserts first, and updates what is there.
        build = build.errors(60.0, &[(1062, "ER_DUP_ENTRY", 60.0)]);
        if !version.mysql_at_least(8, 0, 4) {
            build = build.failed(60.0);
        }
        build = build.metric("lock_deadlocks", 3.0, 0.0);
        build = build.gauge("Threads_connected", 17.0).gauge("Threads_running", 3.0);
        build = build.gauge("Prepared_stmt_count", 64.0).variable("max_prepared_stmt_count", "16382");
        build = build.snapshots(&[
            (
                2,
                ThreadState::Running,
                &["buf_page_get_gen", "row_search_mvcc", "dispatch_command", "do_command"],
            ),
            (14, ThreadState::NetworkIdle, &["vio_read", "do_command"]),
        ]);
        for (name, value) in [
            ("max_connections", "151"),
            ("table_open_cache", "4000"),
            ("innodb_sync_spin_loops", "30"),
            ("innodb_spin_wait_delay", if version.is_mariadb() { "4" } else { "6" }),
            ("thread_cache_size", "9"),
            ("wait_timeout", "28800"),
            ("innodb_flush_log_at_trx_commit", "1"),
            ("sync_binlog", "1"),
            ("log_bin", "ON"),
        ] {
            build = build.variable(name, value);
        }
        if version.mysql_at_least(8, 0, 16) {
            build = build.variable("innodb_spin_wait_pause_multiplier", "50");
        }
        if version.is_mariadb() {
            return build
                .gauge("Innodb_history_list_length", 40.0)
                .gauge("Innodb_checkpoint_age", 20e6)
                .gauge("Innodb_checkpoint_max_age", 80e6)
                .variable("innodb_log_file_size", "100663296")
                .variable("thread_handling", "one-thread-per-connection");
        }
        build
            .counter("Innodb_os_log_fsyncs", 300.0)
            .file_wait("wait/io/file/innodb/innodb_log_file", 300.0, 50.0)
            .file_wait("wait/io/file/sql/binlog", 300.0, 60.0)
            .lsn(1e9, 20e6, 700_000.0)
            .metric("trx_rseg_history_len", 40.0, 0.0)
            .variable("innodb_redo_log_capacity", "104857600")
            .variable("innodb_log_writer_threads", "ON")
            .variable("innodb_log_spin_cpu_abs_lwm", "80")
            .variable("innodb_log_spin_cpu_pct_hwm", "50")
            .variable("innodb_log_wait_for_flush_spin_hwm", "400")
    }

    /// Changes every sample.
    pub(crate) fn each(mut self, change: impl Fn(f64, &mut ServerSample, &mut HostSample)) -> Self {
        for sample in &mut self.0.samples {
            change(sample.at_s, &mut sample.server, &mut sample.host);
        }
        self
    }

    fn status(self, name: &str, value: impl Fn(f64) -> String) -> Self {
        self.each(|at_s, server, _| {
            if let Reading::Available { value: status, .. } = &mut server.status {
                status.insert(name, value(at_s));
            }
        })
    }

    /// A status counter that grows evenly.
    pub(crate) fn counter(self, name: &str, per_s: f64) -> Self {
        self.status(name, |at_s| format!("{:.0}", 1000.0 + per_s * at_s))
    }

    /// A status value in words.
    pub(crate) fn words(self, name: &str, words: &str) -> Self {
        self.status(name, |_| words.to_owned())
    }

    /// A status gauge that does not change.
    pub(crate) fn gauge(self, name: &str, value: f64) -> Self {
        self.status(name, |_| value.to_string())
    }

    /// A global variable.
    pub(crate) fn variable(self, name: &str, value: &str) -> Self {
        self.each(|_, server, _| {
            if let Reading::Available { value: variables, .. } = &mut server.variables {
                variables.insert(name, value);
            }
        })
    }

    /// An enabled metric that starts somewhere and grows evenly.
    pub(crate) fn metric(self, name: &str, from: f64, per_s: f64) -> Self {
        self.each(|at_s, server, _| {
            if let Reading::Available { value: metrics, .. } = &mut server.innodb_metrics {
                metrics.insert(name.into(), InnodbMetric { count: from + per_s * at_s, enabled: true });
            }
        })
    }

    /// Redo log positions: where it stands, the checkpoint age, bytes a second.
    pub(crate) fn lsn(self, from: f64, age: f64, per_s: f64) -> Self {
        self.status("Innodb_redo_log_current_lsn", |at_s| format!("{:.0}", from + per_s * at_s))
            .status("Innodb_redo_log_checkpoint_lsn", |at_s| format!("{:.0}", from + per_s * at_s - age))
    }

    /// File waits: events a second, microseconds of each.
    pub(crate) fn file_wait(self, event: &str, per_s: f64, us: f64) -> Self {
        self.each(|at_s, server, _| {
            if let Reading::Available { value: waits, .. } = &mut server.waits {
                waits.retain(|wait| wait.event != event);
                waits.push(WaitSummary {
                    event: event.into(),
                    count: 1000 + (per_s * at_s) as u64,
                    total_ns: (per_s * at_s * us * 1e3) as u64,
                });
            }
        })
    }

    /// The status of so many of the samples came so late, milliseconds.
    pub(crate) fn late(mut self, samples: usize, ms: f64) -> Self {
        for sample in self.0.samples.iter_mut().take(samples) {
            if let Reading::Available { took_ms, .. } = &mut sample.server.status {
                *took_ms = ms;
            }
        }
        self
    }

    /// Neither stacks nor CPU samples.
    pub(crate) fn without_profile(mut self) -> Self {
        self.0.profile = Reading::default();
        self
    }

    /// CPU samples, a share of them in a spin-wait loop with these frames, innermost first.
    pub(crate) fn cpu_samples(mut self, samples: u32, spinning: f64, frames: &[&str]) -> Self {
        let frame = |name: &&str| Frame { name: (*name).into(), ..Frame::default() };
        let all = frames.len() as u32;
        let spinners = (f64::from(samples) * spinning).round() as u32;
        let profile = Profile {
            frames: frames.iter().chain(&["dispatch_command"]).map(frame).collect(),
            stacks: [(0..=all).collect(), vec![all]]
                .map(|frames| Stack { frames, end: StackEnd::Root })
                .into(),
            cpu_samples: (0..samples)
                .map(|at| {
                    let spins = at < spinners;
                    Observation {
                        stack: u32::from(!spins),
                        state: ThreadState::Running,
                        spin: spins.then_some(Spin::User),
                        ..Observation::default()
                    }
                })
                .collect(),
            // 1.6 CPUs.
            seconds: SECONDS as f64,
            process_cpu_us: 1_600_000 * SECONDS as u64,
            ..Profile::default()
        };
        self.0.profile = answer(0.0, profile);
        self
    }

    /// CPU samples, a share of them below these frames, innermost first; none spins.
    pub(crate) fn running(mut self, samples: u32, share: f64, frames: &[&str]) -> Self {
        self = self.cpu_samples(samples, share, frames);
        if let Reading::Available { value: profile, .. } = &mut self.0.profile {
            profile.cpu_samples.iter_mut().for_each(|sample| sample.spin = None);
        }
        self
    }

    /// One snapshot of the threads of which some stand in these frames, innermost first.
    pub(crate) fn standing(mut self, idle: u32, standing: u32, frames: &[&str]) -> Self {
        self = self.cpu_samples(idle + standing, 0.0, frames);
        let Reading::Available { value: profile, .. } = &mut self.0.profile else { return self };
        profile.snapshots = vec![SnapshotCost::default()];
        profile.observations = std::mem::take(&mut profile.cpu_samples);
        for (at, observation) in (0..).zip(&mut profile.observations) {
            let stands = at < standing;
            observation.stack = u32::from(!stands);
            observation.state = if stands { ThreadState::Lock } else { ThreadState::NetworkIdle };
        }
        self
    }

    /// Threads in each of some snapshots, beside those that are there: how many, their state, and their frames,
    /// innermost first.
    pub(crate) fn snapshots(mut self, threads: &[(u32, ThreadState, &[&str])]) -> Self {
        const SNAPSHOTS: u32 = 20;
        let Reading::Available { value: profile, .. } = &mut self.0.profile else { return self };
        profile.snapshots = (0..SNAPSHOTS)
            .map(|at| SnapshotCost { at_us: u64::from(at) * 500_000, ..SnapshotCost::default() })
            .collect();
        for (count, state, names) in threads {
            let first = profile.frames.len() as u32;
            profile
                .frames
                .extend(names.iter().map(|name| Frame { name: (*name).into(), ..Frame::default() }));
            let stack = profile.stacks.len() as u32;
            profile
                .stacks
                .push(Stack { frames: (first..profile.frames.len() as u32).collect(), end: StackEnd::Root });
            for _ in 0..*count {
                let thread = profile.threads.len() as u32;
                profile.threads.push(ProfiledThread {
                    tid: 4400 + thread,
                    name: "connection".into(),
                    ..ProfiledThread::default()
                });
                profile.observations.extend((0..SNAPSHOTS).map(|snapshot| Observation {
                    snapshot,
                    thread,
                    stack,
                    state: *state,
                    ..Observation::default()
                }));
            }
        }
        self
    }

    /// The same with nothing else in the profile.
    pub(crate) fn only_snapshots(mut self, threads: &[(u32, ThreadState, &[&str])]) -> Self {
        self.0.profile = answer(0.0, Profile::default());
        self.snapshots(threads)
    }

    /// CPU samples beside snapshots, a share of them in the kernel's futex code below the first stack.
    pub(crate) fn beside_samples(mut self, samples: u32, share: f64) -> Self {
        let Reading::Available { value: profile, .. } = &mut self.0.profile else { return self };
        let futex = profile.frames.len() as u32;
        profile.frames.push(Frame { name: "futex_wait".into(), kernel: true, ..Frame::default() });
        let below = std::iter::once(futex).chain(profile.stacks[0].frames.clone()).collect();
        profile.stacks.push(Stack { frames: below, end: StackEnd::Root });
        let such = (f64::from(samples) * share).round() as u32;
        let sample = |at| Observation {
            stack: if at < such { 2 } else { 1 },
            state: ThreadState::Running,
            ..Observation::default()
        };
        profile.cpu_samples = (0..samples).map(sample).collect();
        self
    }

    /// Binary logs in the page cache of a host with 64 GiB, and how much of its memory is free.
    pub(crate) fn logs_cached(self, cached_bytes: u64, free_bytes: u64) -> Self {
        self.each(|at_s, _, host| {
            let cached = 20 << 30;
            host.memory = answer(
                at_s,
                MemoryStat {
                    total_bytes: 64 << 30,
                    available_bytes: cached + free_bytes,
                    cached_bytes: cached,
                    ..MemoryStat::default()
                },
            );
            let binlog = CachedFiles { files: 40, bytes: 40 << 30, cached_bytes };
            host.page_cache = answer(at_s, PageCache { binlog, ..PageCache::default() });
        })
    }

    /// A log's syncs: how many a second, microseconds of each.
    pub(crate) fn log_syncs(self, event: &str, per_s: f64, us: f64) -> Self {
        self.each(|at_s, server, _| {
            let syncs = FileSummary {
                event: event.into(),
                sync_count: (per_s * at_s) as u64,
                sync_ns: (per_s * at_s * us * 1e3) as u64,
            };
            server.log_files = answer(at_s, vec![syncs]);
        })
    }

    /// A statement: executions a second, microseconds, rows examined and rows sent of each.
    pub(crate) fn digest(self, text: &str, per_s: f64, us: f64, examined: f64, sent: f64) -> Self {
        self.digest_scans(text, per_s, us, Rows { examined, sent }, 0.0)
    }

    /// The same with the share of executions that scanned a table.
    pub(crate) fn digest_scans(self, text: &str, per_s: f64, us: f64, rows: Rows, scans: f64) -> Self {
        self.each(|at_s, server, _| {
            if let Reading::Available { value: digests, .. } = &mut server.digests {
                let executions = 100.0 + per_s * at_s;
                digests.push(StatementDigest {
                    schema: "sbtest".into(),
                    digest: text.into(),
                    text: text.into(),
                    executions: executions as u64,
                    total_ns: (executions * us * 1e3) as u64,
                    rows_examined: (executions * rows.examined) as u64,
                    rows_sent: (executions * rows.sent) as u64,
                    full_scans: (executions * scans) as u64,
                    ..StatementDigest::default()
                });
            }
        })
    }

    /// Of 6,000 statements a second so many fail, with these errors by number, name and rate; those of now and for an hour before.
    pub(crate) fn errors(self, failed_per_s: f64, by_number: &[(u32, &str, f64)]) -> Self {
        let at = |per_s: f64, at_s: f64| (1000.0 + per_s * at_s) as u64;
        self.each(|at_s, server, _| {
            let counted = by_number.iter().map(|&(number, name, per_s)| ErrorCount {
                number,
                name: name.into(),
                raised: at(per_s, at_s),
                first_seen_s: Some(3600.0 + at_s),
            });
            let summary = ErrorSummary {
                statements: at(6000.0, at_s),
                failed: at(failed_per_s, at_s),
                by_number: Some(counted.collect()),
            };
            server.errors = answer(at_s, summary);
        })
    }

    /// The same where nobody counts them by number.
    pub(crate) fn failed(self, per_s: f64) -> Self {
        self.errors(per_s, &[]).each(|_, server, _| {
            if let Reading::Available { value: summary, .. } = &mut server.errors {
                summary.by_number = None;
            }
        })
    }

    /// Of the errors summary, so many statements a second in all.
    pub(crate) fn statements(self, per_s: f64) -> Self {
        self.each(|at_s, server, _| {
            if let Reading::Available { value: summary, .. } = &mut server.errors {
                summary.statements = (1000.0 + per_s * at_s) as u64;
            }
        })
    }

    /// A statement that always fails, so many times a second.
    pub(crate) fn failing_digest(self, text: &str, per_s: f64) -> Self {
        self.each(|at_s, server, _| {
            if let Reading::Available { value: digests, .. } = &mut server.digests {
                digests.retain(|digest| digest.text != text);
                let executions = (100.0 + per_s * at_s) as u64;
                digests.push(StatementDigest {
                    schema: "sbtest".into(),
                    digest: text.into(),
                    text: text.into(),
                    executions,
                    total_ns: executions * 40_000,
                    errors: Some(executions),
                    ..StatementDigest::default()
                });
            }
        })
    }

    /// The sessions of each sample, by the sample's number.
    pub(crate) fn sessions(self, sessions: impl Fn(usize) -> Vec<ServerThread>) -> Self {
        self.each(|at_s, server, _| server.threads = answer(at_s, sessions(at_s as usize)))
    }

    /// The server's own view of its CPUs, with user CPU in percent of one CPU.
    pub(crate) fn counted_cpus(self, n_cpu: u32, utime_abs: f64) -> Self {
        self.each(|at_s, _, host| {
            let utime_pct = utime_abs / f64::from(n_cpu);
            host.srv_cpu_usage =
                answer(at_s, SrvCpuUsage { n_cpu, utime_abs, utime_pct, ..SrvCpuUsage::default() });
        })
    }

    /// A quota of so many CPUs on a host of so many, with nothing throttled.
    pub(crate) fn quota(self, cpus: f64, online: u32) -> Self {
        self.each(|at_s, _, host| {
            let quota = Quota {
                cpus,
                quota_us: (cpus * 1e5) as u64,
                period_us: 100_000,
                cgroup: "/kubepods/burstable/pod7/mysql".into(),
            };
            host.effective_cpus =
                answer(at_s, EffectiveCpus { cpus, online, quota: Some(quota), ..EffectiveCpus::default() });
        })
        .throttled(0.0, 0.0)
    }

    /// So many of the window's 100 periods throttled, with so many seconds stopped, summed over CPUs.
    pub(crate) fn throttled(self, periods: f64, stopped_s: f64) -> Self {
        let part = move |at_s: f64, of: f64| (of * at_s / SECONDS as f64) as u64;
        self.each(|at_s, _, host| {
            host.throttling = answer(
                at_s,
                Throttling {
                    periods: part(at_s, 100.0),
                    throttled_periods: part(at_s, periods),
                    throttled_us: part(at_s, stopped_s * 1e6),
                    ..Throttling::default()
                },
            );
        })
    }

    /// CPUs that the server's threads used and waited for, spread over sixteen threads.
    pub(crate) fn runs(self, ran_cpus: f64, queued_cpus: f64) -> Self {
        self.each(|at_s, _, host| {
            let part = |cpus: f64| (cpus / 16.0 * at_s * 1e9) as u64;
            let thread = |tid| ThreadStat {
                tid,
                name: "connection".into(),
                state: "S".into(),
                ran_ns: part(ran_cpus),
                run_queue_ns: part(queued_cpus),
                ..ThreadStat::default()
            };
            host.threads = answer(at_s, (4311..4327).map(thread).collect());
        })
    }

    /// CPUs of the host that were busy and idle.
    pub(crate) fn host_cpu(self, busy: f64, idle: f64) -> Self {
        self.each(|at_s, _, host| {
            let part = |cpus: f64| (cpus * at_s * 1e6) as u64;
            host.cpu_times =
                answer(at_s, CpuTimes { user_us: part(busy), idle_us: part(idle), ..CpuTimes::default() });
        })
    }

    /// What the other programs of the host used.
    pub(crate) fn other_programs(self, programs: &[OtherProgram]) -> Self {
        self.each(|at_s, _, host| {
            let known = OtherPrograms { over_s: at_s, programs: programs.to_vec() };
            host.other_programs = answer(at_s, if at_s > 0.0 { known } else { OtherPrograms::default() });
        })
    }

    /// A disk: writes a second, microseconds of a write and of a flush.
    pub(crate) fn disk(self, per_s: f64, write_us: f64, flush_us: f64) -> Self {
        self.each(|at_s, _, host| {
            let count = per_s * at_s;
            host.disks = answer(
                at_s,
                vec![DiskStat {
                    name: "nvme0n1".into(),
                    writes: count as u64,
                    write_us: (count * write_us) as u64,
                    flushes: Some(count as u64),
                    flush_us: Some((count * flush_us) as u64),
                    ..DiskStat::default()
                }],
            );
        })
    }

    /// A server elsewhere: nothing of its host can be read.
    pub(crate) fn remote(mut self) -> Self {
        self.0.server.pid = None;
        let why = || Unavailable::because("the server is not on this host");
        self.0.server.no_pid = Some(why());
        self.each(|_, _, host| {
            *host = HostSample {
                effective_cpus: Reading::Unavailable(why()),
                process: Reading::Unavailable(why()),
                threads: Reading::Unavailable(why()),
                ..HostSample::default()
            };
        })
    }

    /// A server that takes no session: nothing of it can be asked.
    pub(crate) fn no_session(mut self, kind: NoSessionKind) -> Self {
        self.0.server.no_session = Some(NoSession { kind, because: "no session".into() });
        self.0.server.version = None;
        self.each(|_, server, _| *server = ServerSample::default())
    }

    /// The window.
    pub(crate) fn window(self) -> Window {
        self.0
    }
}
