//! A sample without the lists of the server's threads and transactions: of a server with a thousand connections they take
//! ten times as long to read as all the rest.

use std::collections::BTreeMap;

use serde::Deserialize;
use spindoctor_model::innodb_status::InnodbStatus;
use spindoctor_model::mysql::{
    FileSummary, InnodbMetric, MetadataLock, NamedValues, ReplicaChannel, RowLockWait, StatementDigest,
    WaitSummary,
};
use spindoctor_model::{HostSample, Reading, Sample, ServerSample};

use crate::codec::ReadSecond;

/// [`ReadSecond`] without them.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ThinSecond {
    after_ms: i64,
    sample: ThinSample,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ThinSample {
    at_s: f64,
    server: ThinServer,
    host: HostSample,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ThinServer {
    status: Reading<NamedValues>,
    variables: Reading<NamedValues>,
    innodb_status: Reading<InnodbStatus>,
    innodb_metrics: Reading<BTreeMap<String, InnodbMetric>>,
    digests: Reading<Vec<StatementDigest>>,
    waits: Reading<Vec<WaitSummary>>,
    log_files: Reading<Vec<FileSummary>>,
    metadata_locks: Reading<Vec<MetadataLock>>,
    row_lock_waits: Reading<Vec<RowLockWait>>,
    replication: Reading<Vec<ReplicaChannel>>,
    cut: Vec<String>,
}

impl From<ThinSecond> for ReadSecond {
    fn from(thin: ThinSecond) -> Self {
        let ThinSecond { after_ms, sample: ThinSample { at_s, server, host } } = thin;
        let server = ServerSample {
            status: server.status,
            variables: server.variables,
            innodb_status: server.innodb_status,
            innodb_metrics: server.innodb_metrics,
            threads: Reading::NotAsked,
            transactions: Reading::NotAsked,
            digests: server.digests,
            waits: server.waits,
            log_files: server.log_files,
            metadata_locks: server.metadata_locks,
            row_lock_waits: server.row_lock_waits,
            replication: server.replication,
            cut: server.cut,
        };
        Self { after_ms, sample: Sample { at_s, server, host } }
    }
}
