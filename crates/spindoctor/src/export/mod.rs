//! A recording for other programs: tables as Parquet or CSV, and metrics for Prometheus and OpenTelemetry.
//!
//! A table is named once, in [`table::TABLES`], with its columns and how its rows follow from what was recorded; a
//! file format is a [`Sink`](table::Sink) of rows. Metrics are one list of families ([`metrics`]) that both formats render.

pub(crate) mod csv;
pub(crate) mod metrics;
pub(crate) mod otlp;
pub(crate) mod parquet;
pub(crate) mod prometheus;
pub(crate) mod serve;
pub(crate) mod table;
mod values;
