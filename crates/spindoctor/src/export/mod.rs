//! A recording for other programs: tables as Parquet or CSV, and metrics for Prometheus and OpenTelemetry.
//!
//! A table is named once, in [`table::TABLES`], with its columns and how its rows follow from what was recorded; a
//! file format is a [`Sink`](table::Sink) of rows. Which rows are wanted is a [`Part`](part::Part) of a recording: a
//! stretch that a user names, or one [slice](mod@slice) after another for the [`dated`] layout. Metrics are one list of
//! families ([`metrics`]) that both formats render.

pub(crate) mod csv;
pub(crate) mod dated;
pub(crate) mod file;
pub(crate) mod metrics;
pub(crate) mod otlp;
pub(crate) mod parquet;
pub(crate) mod part;
pub(crate) mod prometheus;
pub(crate) mod serve;
pub(crate) mod slice;
pub(crate) mod table;
mod values;
