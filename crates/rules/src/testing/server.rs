//! What the server's own sources say.

use spindoctor_model::Reading;
use spindoctor_model::mysql::{
    ErrorCount, ErrorSummary, FileSummary, InnodbMetric, RowLockWait, ServerThread, StatementDigest,
    WaitSummary,
};

use super::{Build, Rows, answer, transaction};

impl Build {
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

    /// Answers to the questions of each sample took so long.
    pub(crate) fn answered_in(self, ms: f64) -> Self {
        fn slow<T>(reading: &mut Reading<T>, ms: f64) {
            if let Reading::Available { took_ms, .. } = reading {
                *took_ms = ms;
            }
        }
        self.each(move |_, server, _| {
            slow(&mut server.status, ms);
            slow(&mut server.variables, ms);
            slow(&mut server.threads, ms);
            slow(&mut server.transactions, ms);
            slow(&mut server.innodb_status, ms);
            slow(&mut server.innodb_metrics, ms);
            slow(&mut server.digests, ms);
            slow(&mut server.errors, ms);
            slow(&mut server.waits, ms);
            slow(&mut server.row_lock_waits, ms);
            slow(&mut server.metadata_locks, ms);
            slow(&mut server.accounts, ms);
            slow(&mut server.replication, ms);
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
            let before = server.log_files.value().cloned().unwrap_or_default();
            let others = before.into_iter().filter(|file| file.event != event);
            server.log_files = answer(at_s, others.chain([syncs]).collect());
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

    /// Connections 20 to 29 wait for a row that connection 7 has, in a transaction that stays open.
    pub(crate) fn row_locked(self) -> Self {
        self.each(|at_s, server, _| {
            let wait = |waiter: u64| RowLockWait {
                waiting_connection_id: Some(waiter),
                blocking_connection_id: Some(7),
                waiting_transaction: (waiter + 9000).to_string(),
                blocking_transaction: "9007".into(),
                table: "shop.stock".into(),
                index: "PRIMARY".into(),
                record: "7".into(),
                mode: "X,REC_NOT_GAP".into(),
                waited_s: 3.0,
            };
            server.row_lock_waits = answer(at_s, (20..30).map(wait).collect());
            server.transactions = answer(at_s, vec![transaction(7, "RUNNING", 61.0)]);
        })
    }
}
