//! Made-up servers, for the tests of the report.

use spindoctor_fleet::examine::{no_host, window_of};
use spindoctor_fleet::failure::Failure;
use spindoctor_model::host::{EffectiveCpus, Quota};
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{Cost, HostSample, Reading, Sample, ServerVersion, Window};

use super::gathering::Gathering;
use super::view::FleetDiagnosis;

/// Text that would steer a terminal.
pub const HOSTILE: &str = "\u{1b}]2;owned\u{7}\u{202e}";

/// The names of [`fleet`]'s servers.
pub fn names() -> Vec<String> {
    (1..=6).map(|at| format!("db{at}:3306")).collect()
}

/// A server of that version with so many connections of a hundred, and `sync_binlog` so.
pub fn window(version: &str, connected: f64, sync_binlog: &str) -> Window {
    let read = |at_s: f64, values: NamedValues| Reading::Available { at_s, took_ms: 1.0, value: values };
    let mut samples = vec![
        Sample { at_s: 0.0, host: HostSample::unavailable(&no_host()), ..Sample::default() },
        Sample { at_s: 2.0, ..Sample::default() },
    ];
    samples[0].server.variables = read(
        0.0,
        [
            ("max_connections", "100"),
            ("sync_binlog", sync_binlog),
            ("innodb_log_writer_threads", "ON"),
            ("log_bin", "ON"),
            ("init_connect", HOSTILE),
        ]
        .into_iter()
        .collect(),
    );
    for sample in &mut samples {
        let at_s = sample.at_s;
        let values =
            [("Uptime", 812.0 + at_s), ("Threads_connected", connected + 1.0), ("Questions", 1e3 * at_s)];
        sample.server.status =
            read(at_s, values.map(|(name, value)| (name, value.to_string())).into_iter().collect());
    }
    let mut window = Window { samples, profile: Reading::Unavailable(no_host()), ..Window::default() };
    window.server.version = ServerVersion::parse(version, "");
    window.server.own_connection_id = Some(0);
    window.server.no_pid = Some(no_host());
    window.cost = Cost { server_queries: 20, server_busy_ms: 15.0, ..Cost::default() };
    window
}

/// Six servers: the first is granted four CPUs, the second is older, the third and the fifth are nearly full, the fourth
/// does not sync its binary log, the last one lets nobody in.
pub fn fleet() -> FleetDiagnosis {
    let mut gathering = Gathering::default();
    let mut small = window("8.0.36", 10.0, "1");
    let quota = Quota { cpus: 4.0, quota_us: 400_000, period_us: 100_000, cgroup: "the tag cpus".to_owned() };
    let granted = EffectiveCpus { cpus: 4.0, online: 4, quota: Some(quota), ..EffectiveCpus::default() };
    small.samples[0].host.effective_cpus = Reading::Available { at_s: 0.0, took_ms: 0.0, value: granted };
    let full = Failure { code: Some(1040), ..Failure::connect("error 1040: Too many connections") };
    gathering.refused(5, &window_of(&full, "db6:3306").expect("it is a reading"));
    gathering.add(4, None, &window("8.0.36", 95.0, "1"));
    gathering.add(0, None, &small);
    gathering.add(3, None, &window("8.0.36", 10.0, "0"));
    gathering.add(1, None, &window("8.0.35", 10.0, "1"));
    gathering.add(2, None, &window("8.0.36", 95.0, "1"));
    gathering.finish(None)
}
