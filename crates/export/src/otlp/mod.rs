//! Metrics and events for OpenTelemetry: OTLP over HTTP, protocol buffers.
//!
//! Pure: families of metrics, or the head of an event, to the bytes of a request. [`push`] sends them. The messages
//! are written out in `proto`: the published crate would bring OpenTelemetry's SDK with it.

mod proto;
pub mod push;

use jiff::Timestamp;
use prost::Message as _;
use spindoctor_model::{EventHead, ServerIdentity};

pub use push::{Pusher, Signal};

use self::proto::{
    Any, AnyValue, Data, ExportLogs, ExportMetrics, Gauge, HistogramPoint, KeyValue, LogRecord, Metric,
    NumberPoint, Resource, ResourceLogs, ResourceMetrics, Scope, ScopeLogs, ScopeMetrics, Sum,
};

use super::metrics::{Family, Kind, PROBE_BOUNDS_S, Point, Since, Value};
use super::rows;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: i32 = 2;
/// A time that is not given (metrics.proto: "Value of 0 indicates that the timestamp is unspecified").
const UNSPECIFIED: u64 = 0;
/// `SEVERITY_NUMBER_WARN`.
const WARN: i32 = 13;
/// What an event is called among other events.
const EVENT_NAME: &str = "spindoctor.stall";

/// A request for `/v1/metrics`. The recorder began then; other counters count from when their family says.
pub fn metrics(families: &[Family], server: &ServerIdentity, began: Timestamp, at: Timestamp) -> Vec<u8> {
    let scope_metrics = vec![ScopeMetrics {
        scope: Some(scope()),
        metrics: families.iter().map(|family| metric(family, began, at)).collect(),
    }];
    let resource = Some(resource(server));
    ExportMetrics { resource_metrics: vec![ResourceMetrics { resource, scope_metrics }] }.encode_to_vec()
}

/// A request for `/v1/logs` with one event.
pub fn event(head: &EventHead, server: &ServerIdentity, at: Timestamp) -> Vec<u8> {
    let mut attributes = vec![
        KeyValue {
            key: "spindoctor.event.id".to_owned(),
            value: Some(any(Any::Integer(head.id.cast_signed()))),
        },
        text("spindoctor.event.kind", &rows::word(&head.stall.kind)),
        text("spindoctor.event.because", &head.stall.because),
    ];
    attributes.extend(head.cause.as_deref().map(|cause| text("spindoctor.event.cause", cause)));
    if let Some(ended) = head.ended {
        let seconds = ended.duration_since(head.began).as_secs_f64();
        attributes.push(KeyValue {
            key: "spindoctor.event.duration_s".to_owned(),
            value: Some(any(Any::Real(seconds))),
        });
    }
    let line = [head.headline.as_str(), &head.stall.because].into_iter().find(|line| !line.is_empty());
    let line = line.unwrap_or_else(|| head.stall.kind.title());
    let record = LogRecord {
        time_unix_nano: nanoseconds(head.began),
        observed_time_unix_nano: nanoseconds(at),
        severity_number: WARN,
        severity_text: "WARN".to_owned(),
        body: Some(any(Any::Text(line.to_owned()))),
        attributes,
        event_name: EVENT_NAME.to_owned(),
    };
    let scope_logs = vec![ScopeLogs { scope: Some(scope()), log_records: vec![record] }];
    let resource = Some(resource(server));
    ExportLogs { resource_logs: vec![ResourceLogs { resource, scope_logs }] }.encode_to_vec()
}

fn metric(family: &Family, began: Timestamp, at: Timestamp) -> Metric {
    let start = match (family.kind, family.since) {
        (Kind::Gauge, _) | (_, Since::Unknown) => UNSPECIFIED,
        (_, Since::Recorder) => nanoseconds(began),
        (_, Since::Instant(since)) => nanoseconds(since),
    };
    let times = (start, nanoseconds(at));
    let numbers = || family.points.iter().filter_map(|point| number(point, times)).collect();
    let data = match family.kind {
        Kind::Gauge => Data::Gauge(Gauge { data_points: numbers() }),
        Kind::Counter => {
            Data::Sum(Sum { data_points: numbers(), aggregation_temporality: CUMULATIVE, is_monotonic: true })
        }
        Kind::Histogram => Data::Histogram(proto::Histogram {
            data_points: family.points.iter().filter_map(|point| histogram(point, times)).collect(),
            aggregation_temporality: CUMULATIVE,
        }),
    };
    Metric {
        name: family.name.to_owned(),
        description: family.help.to_owned(),
        unit: family.unit.to_owned(),
        data: Some(data),
    }
}

fn number(point: &Point, (start, at): (u64, u64)) -> Option<NumberPoint> {
    let Value::Number(number) = point.value else { return None };
    Some(NumberPoint {
        start_time_unix_nano: start,
        time_unix_nano: at,
        as_double: Some(number),
        attributes: attributes(point),
    })
}

fn histogram(point: &Point, (start, at): (u64, u64)) -> Option<HistogramPoint> {
    let Value::Histogram(histogram) = &point.value else { return None };
    Some(HistogramPoint {
        start_time_unix_nano: start,
        time_unix_nano: at,
        count: histogram.count(),
        sum: Some(histogram.sum_s),
        bucket_counts: histogram.counts.to_vec(),
        explicit_bounds: PROBE_BOUNDS_S.to_vec(),
        attributes: attributes(point),
    })
}

fn attributes(point: &Point) -> Vec<KeyValue> {
    point.labels.iter().map(|(name, value)| text(name, value)).collect()
}

/// By OpenTelemetry's semantic conventions.
fn resource(server: &ServerIdentity) -> Resource {
    let instance = if server.hostname.is_empty() { &server.address } else { &server.hostname };
    let mut attributes = vec![
        text("service.name", "spindoctor"),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", instance),
    ];
    if !server.hostname.is_empty() {
        attributes.push(text("host.name", &server.hostname));
    }
    attributes.push(text(
        "db.system.name",
        match server.version {
            Some(version) if version.is_mariadb() => "mariadb",
            _ => "mysql",
        },
    ));
    Resource { attributes }
}

fn scope() -> Scope {
    Scope { name: "spindoctor".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}

fn text(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(any(Any::Text(value.to_owned()))) }
}

fn any(value: Any) -> AnyValue {
    AnyValue { value: Some(value) }
}

/// Since the epoch; a clock before that is at it.
fn nanoseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_nanosecond()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::examples;
    use crate::metrics::tests::all;

    #[test]
    fn every_family_comes_back_from_its_bytes() {
        let families = all();
        let server = examples::server();
        let bytes = metrics(&families, &server, examples::at(0.0), examples::at(1.0));
        let read = ExportMetrics::decode(bytes.as_slice()).unwrap();
        let read = &read.resource_metrics[0].scope_metrics[0].metrics;
        assert_eq!(read.len(), families.len());
        for (metric, family) in read.iter().zip(&families) {
            let points = match metric.data.as_ref().unwrap() {
                Data::Gauge(gauge) => gauge.data_points.len(),
                Data::Sum(sum) => sum.data_points.len(),
                Data::Histogram(histogram) => {
                    let point = &histogram.data_points[0];
                    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
                    assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
                    histogram.data_points.len()
                }
            };
            assert_eq!((metric.name.as_str(), points), (family.name, family.points.len()));
        }
    }

    #[test]
    fn a_counter_starts_when_it_began_to_count_and_not_when_somebody_looked_first() {
        let server = examples::server();
        let began = examples::at(0.0);
        let bytes = metrics(&all(), &server, began, examples::at(1.0));
        let read = ExportMetrics::decode(bytes.as_slice()).unwrap();
        let read = &read.resource_metrics[0].scope_metrics[0].metrics;
        let start = |name: &str| {
            let metric = read.iter().find(|metric| metric.name == name).unwrap();
            match metric.data.as_ref().unwrap() {
                Data::Gauge(gauge) => gauge.data_points[0].start_time_unix_nano,
                Data::Sum(sum) => sum.data_points[0].start_time_unix_nano,
                Data::Histogram(histogram) => histogram.data_points[0].start_time_unix_nano,
            }
        };
        // The window begins a second before the recorder, and the server was up for 812 s then.
        assert_eq!(start("spindoctor_mysql_questions_total"), nanoseconds(examples::at(-813.0)));
        assert_eq!(start("spindoctor_server_cpu_seconds_total"), UNSPECIFIED);
        assert_eq!(start("spindoctor_mysql_threads_running"), UNSPECIFIED);
        assert_eq!(start("spindoctor_events_total"), nanoseconds(began));
        assert_eq!(start("spindoctor_probe_seconds"), nanoseconds(began));
    }

    #[test]
    fn an_event_is_a_log_record_with_its_cause() {
        let bytes = event(&examples::event().head, &examples::server(), examples::at(4.0));
        let read = ExportLogs::decode(bytes.as_slice()).unwrap();
        let record = &read.resource_logs[0].scope_logs[0].log_records[0];
        assert_eq!(record.time_unix_nano, nanoseconds(examples::at(0.2)));
        assert!(record.attributes.contains(&text("spindoctor.event.cause", "metadata-lock-pileup")));
        assert!(record.attributes.contains(&text("spindoctor.event.kind", "commits_stopped")));
        let resource = read.resource_logs[0].resource.as_ref().unwrap();
        assert!(resource.attributes.contains(&text("host.name", "db17")));
    }
}
