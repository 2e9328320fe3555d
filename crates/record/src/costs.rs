//! What asking each source cost, by the minute.

use std::collections::BTreeMap;

use jiff::Timestamp;
use rusqlite::{Connection, params};
use spindoctor_model::{HostSample, Reading, Sample, ServerSample};

use crate::time::from_ms;

/// What one source cost in one minute.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceCost {
    /// When the minute began.
    pub minute: Timestamp,
    /// The source: a reading of the sample (`server.status`), or what the recorder calls it.
    pub source: String,
    /// How often it was asked.
    pub asked: u64,
    /// From question to answer, summed, milliseconds.
    pub took_ms: f64,
}

/// Costs that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct Costs(BTreeMap<String, (u64, f64)>);

impl Costs {
    /// Adds to a source's cost.
    pub(crate) fn add(&mut self, source: &str, asked: u64, took_ms: f64) {
        match self.0.get_mut(source) {
            Some((times, sum_ms)) => {
                *times += asked;
                *sum_ms += took_ms;
            }
            None => {
                self.0.insert(source.to_owned(), (asked, took_ms));
            }
        }
    }

    /// Adds what the readings of a sample took.
    pub(crate) fn add_readings(&mut self, sample: &Sample) {
        let ServerSample {
            status,
            variables,
            innodb_status,
            innodb_metrics,
            threads,
            transactions,
            digests,
            waits,
            log_files,
            metadata_locks,
            row_lock_waits,
            accounts,
            replication,
            cut: _,
        } = &sample.server;
        self.add_reading("server.status", status);
        self.add_reading("server.variables", variables);
        self.add_reading("server.innodb_status", innodb_status);
        self.add_reading("server.innodb_metrics", innodb_metrics);
        self.add_reading("server.threads", threads);
        self.add_reading("server.transactions", transactions);
        self.add_reading("server.digests", digests);
        self.add_reading("server.waits", waits);
        self.add_reading("server.log_files", log_files);
        self.add_reading("server.metadata_locks", metadata_locks);
        self.add_reading("server.row_lock_waits", row_lock_waits);
        self.add_reading("server.accounts", accounts);
        self.add_reading("server.replication", replication);
        let HostSample {
            effective_cpus,
            throttling,
            pressure,
            cgroup_pressure,
            pause,
            cpu,
            cpu_times,
            process,
            threads,
            numa,
            disks,
            memory,
            srv_cpu_usage,
            data_directory,
            page_cache,
            listen_queues,
        } = &sample.host;
        self.add_reading("host.effective_cpus", effective_cpus);
        self.add_reading("host.throttling", throttling);
        self.add_reading("host.pressure", pressure);
        self.add_reading("host.cgroup_pressure", cgroup_pressure);
        self.add_reading("host.pause", pause);
        self.add_reading("host.cpu", cpu);
        self.add_reading("host.cpu_times", cpu_times);
        self.add_reading("host.process", process);
        self.add_reading("host.threads", threads);
        self.add_reading("host.numa", numa);
        self.add_reading("host.disks", disks);
        self.add_reading("host.memory", memory);
        self.add_reading("host.srv_cpu_usage", srv_cpu_usage);
        self.add_reading("host.data_directory", data_directory);
        self.add_reading("host.page_cache", page_cache);
        self.add_reading("host.listen_queues", listen_queues);
    }

    fn add_reading<T>(&mut self, source: &str, reading: &Reading<T>) {
        if let Reading::Available { took_ms, .. } = reading {
            self.add(source, 1, *took_ms);
        }
    }

    /// Writes what was added since the last time to a minute's rows.
    pub(crate) fn write(&mut self, db: &Connection, minute_ms: i64) -> rusqlite::Result<()> {
        let mut insert = db.prepare_cached(
            "INSERT INTO costs (minute_ms, source, asked, took_ms) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET asked = asked + excluded.asked, took_ms = took_ms + excluded.took_ms",
        )?;
        for (source, (asked, took_ms)) in std::mem::take(&mut self.0) {
            insert.execute(params![minute_ms, source, i64::try_from(asked).unwrap_or(i64::MAX), took_ms])?;
        }
        Ok(())
    }
}

/// The costs of the minutes that begin in a range, both ends included.
pub(crate) fn read(db: &Connection, since_ms: i64, until_ms: i64) -> rusqlite::Result<Vec<SourceCost>> {
    db.prepare(
        "SELECT minute_ms, source, asked, took_ms FROM costs WHERE minute_ms BETWEEN ?1 AND ?2
         ORDER BY minute_ms, source",
    )?
    .query_map([since_ms, until_ms], |row| {
        Ok(SourceCost {
            minute: from_ms(row.get(0)?),
            source: row.get(1)?,
            asked: row.get::<_, i64>(2)?.try_into().unwrap_or(0),
            took_ms: row.get(3)?,
        })
    })?
    .collect()
}
