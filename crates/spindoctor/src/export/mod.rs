//! `spindoctor export`: tables of a recording as files; and the same numbers for Prometheus and OpenTelemetry.

mod args;
mod csv;
mod dated;
mod file;
pub mod metrics;
pub mod otlp;
pub mod parquet;
mod part;
pub mod prometheus;
mod run;
pub mod serve;
mod slice;
pub mod table;
mod values;

pub use args::{Export, FileFormat, table_names};
pub use dated::Dated;
pub use run::run;
pub use slice::{More, Position};
pub use table::{Cell, Kind, Sink, TABLES};
