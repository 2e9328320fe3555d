//! A sample without the lists of the server's threads and transactions: of a server with a thousand connections they take
//! ten times as long to read as all the rest.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use spindoctor_model::innodb_status::InnodbStatus;
use spindoctor_model::mysql::{
    AccountSummary, FileSummary, InnodbMetric, MetadataLock, NamedValues, ReplicaChannel, RowLockWait,
    StatementDigest, WaitSummary,
};
use spindoctor_model::{HostSample, Reading, Sample, ServerSample};

use crate::codec::ReadSecond;

/// [`ReadSecond`] without them: they are not asked for.
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
    threads: Reading<IgnoredAny>,
    transactions: Reading<IgnoredAny>,
    digests: Reading<Vec<StatementDigest>>,
    waits: Reading<Vec<WaitSummary>>,
    log_files: Reading<Vec<FileSummary>>,
    metadata_locks: Reading<Vec<MetadataLock>>,
    row_lock_waits: Reading<Vec<RowLockWait>>,
    accounts: Reading<Vec<AccountSummary>>,
    replication: Reading<Vec<ReplicaChannel>>,
    cut: Vec<String>,
}

/// The same, with lists that are empty where there was an answer: when it came and how long it took is kept.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct EmptiedSecond(ThinSecond);

impl From<EmptiedSecond> for ReadSecond {
    fn from(EmptiedSecond(mut thin): EmptiedSecond) -> Self {
        let server = &mut thin.sample.server;
        let threads = emptied(std::mem::take(&mut server.threads));
        let transactions = emptied(std::mem::take(&mut server.transactions));
        let mut second = Self::from(thin);
        (second.sample.server.threads, second.sample.server.transactions) = (threads, transactions);
        second
    }
}

fn emptied<T>(reading: Reading<IgnoredAny>) -> Reading<Vec<T>> {
    match reading {
        Reading::NotAsked => Reading::NotAsked,
        Reading::Unavailable(why) => Reading::Unavailable(why),
        Reading::Available { at_s, took_ms, .. } => Reading::Available { at_s, took_ms, value: Vec::new() },
    }
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
            accounts: server.accounts,
            replication: server.replication,
            cut: server.cut,
        };
        Self { after_ms, sample: Sample { at_s, server, host } }
    }
}
