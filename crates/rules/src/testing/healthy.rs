//! A healthy busy server.

use spindoctor_model::host::{EffectiveCpus, NumaNode, PauseLatency, ProcessStat};
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::stack::ThreadState;
use spindoctor_model::{InnodbStatus, Sample, ServerVersion, Window};

use super::{Build, Rows, SECONDS, answer, session};

impl Build {
    /// A healthy busy server on a host with four CPUs: 400 transactions a second from sixteen
    /// sessions, half of its CPU used, logs synced in 50 us, every source answering.
    pub(crate) fn busy(version: &str) -> Self {
        let version = ServerVersion::parse(version, "").unwrap();
        Self::answering(version)
            .on_a_host()
            .at_work()
            .counting(version)
            .standing_as_usual()
            .set_up(version)
            .of_its_kind(version)
    }

    /// Every source answers.
    fn answering(version: ServerVersion) -> Self {
        let mut window = Window {
            samples: (0..=SECONDS).map(|at| Sample { at_s: at as f64, ..Sample::default() }).collect(),
            ..Window::default()
        };
        window.server.version = Some(version);
        window.server.pid = Some(4310);
        window.server.own_connection_id = Some(99);
        Self(window).each(|at_s, server, host| {
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
    }

    /// Half of the CPUs are used, and the disk is quick.
    fn on_a_host(self) -> Self {
        self.counted_cpus(4, 160.0)
            .host_cpu(2.2, 1.8)
            .runs(1.8, 0.3)
            .disk(500.0, 30.0, 20.0)
            .logs_cached(1 << 30, 1 << 30)
            .cpu_samples(1000, 0.01, &["ut_delay", "rw_lock_s_lock_spin", "btr_cur_search_to_nth_level"])
    }

    /// Sessions and statements, those of spindoctor itself among them.
    fn at_work(self) -> Self {
        self.sessions(|at| {
            let state = if at.is_multiple_of(5) { "waiting for handler commit" } else { "executing" };
            let mut sessions = vec![session(11, "Query", state, "UPDATE sbtest1 SET k = k + 1 WHERE id = 7")];
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
        )
    }

    /// What both servers count.
    fn counting(self, version: ServerVersion) -> Self {
        let mut build = self;
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
        build
    }

    /// Stacks: two sessions run, the others wait for their clients.
    fn standing_as_usual(self) -> Self {
        self.snapshots(&[
            (
                2,
                ThreadState::Running,
                &["buf_page_get_gen", "row_search_mvcc", "dispatch_command", "do_command"],
            ),
            (14, ThreadState::NetworkIdle, &["vio_read", "do_command"]),
        ])
    }

    fn set_up(self, version: ServerVersion) -> Self {
        let mut build = self;
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
        build
    }

    /// What MySQL or MariaDB alone counts and sets.
    fn of_its_kind(self, version: ServerVersion) -> Self {
        if version.is_mariadb() {
            return self
                .gauge("Innodb_history_list_length", 40.0)
                .gauge("Innodb_checkpoint_age", 20e6)
                .gauge("Innodb_checkpoint_max_age", 80e6)
                .variable("innodb_log_file_size", "100663296")
                .variable("thread_handling", "one-thread-per-connection");
        }
        self.counter("Innodb_os_log_fsyncs", 300.0)
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
}
