//! The messages of OTLP 1.x that are written, with their fields' tags:
//! <https://github.com/open-telemetry/opentelemetry-proto>, `collector/metrics/v1`, `metrics/v1`, `collector/logs/v1`,
//! `logs/v1`, `resource/v1`, `common/v1`.

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ExportMetrics {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Metric {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) description: String,
    #[prost(string, tag = "3")]
    pub(super) unit: String,
    #[prost(oneof = "Data", tags = "5, 7, 9")]
    pub(super) data: Option<Data>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Gauge {
    #[prost(message, repeated, tag = "1")]
    pub(super) data_points: Vec<NumberPoint>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Sum {
    #[prost(message, repeated, tag = "1")]
    pub(super) data_points: Vec<NumberPoint>,
    #[prost(int32, tag = "2")]
    pub(super) aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    pub(super) is_monotonic: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Histogram {
    #[prost(message, repeated, tag = "1")]
    pub(super) data_points: Vec<HistogramPoint>,
    #[prost(int32, tag = "2")]
    pub(super) aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct NumberPoint {
    #[prost(fixed64, tag = "2")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(super) time_unix_nano: u64,
    /// One of a `oneof`: written also where it is zero.
    #[prost(double, optional, tag = "4")]
    pub(super) as_double: Option<f64>,
    #[prost(message, repeated, tag = "7")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HistogramPoint {
    #[prost(fixed64, tag = "2")]
    pub(super) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(super) time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    pub(super) count: u64,
    #[prost(double, optional, tag = "5")]
    pub(super) sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    pub(super) bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    pub(super) explicit_bounds: Vec<f64>,
    #[prost(message, repeated, tag = "9")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ExportLogs {
    #[prost(message, repeated, tag = "1")]
    pub(super) resource_logs: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    pub(super) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(super) scope_logs: Vec<ScopeLogs>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    pub(super) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(super) log_records: Vec<LogRecord>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LogRecord {
    #[prost(fixed64, tag = "1")]
    pub(super) time_unix_nano: u64,
    #[prost(int32, tag = "2")]
    pub(super) severity_number: i32,
    #[prost(string, tag = "3")]
    pub(super) severity_text: String,
    #[prost(message, optional, tag = "5")]
    pub(super) body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    pub(super) attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "11")]
    pub(super) observed_time_unix_nano: u64,
    #[prost(string, tag = "12")]
    pub(super) event_name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(super) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Scope {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeyValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(message, optional, tag = "2")]
    pub(super) value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AnyValue {
    #[prost(oneof = "Any", tags = "1, 3, 4")]
    pub(super) value: Option<Any>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Any {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Integer(i64),
    #[prost(double, tag = "4")]
    Real(f64),
}
