//! Servers by the CPU that they run on, and those whose spin settings do not fit its PAUSE. Pure.
//!
//! Servers of one CPU are judged by one PAUSE, the median of what was measured on them, so that a measurement that was
//! disturbed names no server and equal servers get equal advice.

use std::collections::BTreeMap;

use spindoctor_model::host::PauseLatency;
use spindoctor_model::mysql::NamedValues;
use spindoctor_model::{ServerVersion, Window, median};
use spindoctor_rules::spin_fit::{LATCH_SETTINGS, Misfit, latch_misfits};

/// Servers of one CPU whose PAUSEs are further apart than this do not run on the same CPU, whatever it is called: the numbers
/// published of one generation differ by half at most.
const SAME_PAUSE: f64 = 1.5;

/// Servers of one CPU.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuGroup {
    /// What it is called; empty where nobody said.
    pub cpu: String,
    /// Its PAUSE, nanoseconds.
    pub pause_ns: f64,
    /// The servers, in the order of the list.
    pub servers: Vec<usize>,
    /// Those of them whose settings of the latch spin do not fit it.
    pub misfits: Vec<usize>,
}

/// Servers whose PAUSE is known.
#[derive(Debug, Default)]
pub struct Cpus(BTreeMap<String, Vec<Spinner>>);

/// What the latch spin of one server depends on.
#[derive(Debug)]
struct Spinner {
    server: usize,
    version: ServerVersion,
    settings: NamedValues,
    pause: PauseLatency,
}

impl Cpus {
    /// Adds a server, where its PAUSE is known.
    pub fn add(&mut self, server: usize, window: &Window) {
        let (Some(version), Some(pause), Some(variables)) =
            (window.server.version, window.latest(|s| &s.host.pause), window.latest(|s| &s.server.variables))
        else {
            return;
        };
        let settings =
            LATCH_SETTINGS.iter().filter_map(|name| Some((*name, variables.text(name)?))).collect();
        let cpu = window.latest(|s| &s.host.cpu).map(|cpu| cpu.name.clone()).unwrap_or_default();
        let spinner = Spinner { server, version, settings, pause: pause.clone() };
        self.0.entry(cpu).or_default().push(spinner);
    }

    /// The groups, the largest first, and what does not fit on which servers.
    pub fn finish(self) -> (Vec<CpuGroup>, Vec<(Misfit, usize)>) {
        let (mut groups, mut misfits) = (Vec::new(), Vec::new());
        for (cpu, spinners) in self.0 {
            for alike in with_alike_pause(spinners) {
                let pause_ns = median(alike.iter().map(|spinner| spinner.pause.ns)).unwrap_or_default();
                let mut group =
                    CpuGroup { cpu: cpu.clone(), pause_ns, servers: Vec::new(), misfits: Vec::new() };
                for spinner in alike {
                    let pause = PauseLatency { ns: pause_ns, ..spinner.pause };
                    let found = latch_misfits(spinner.version, &spinner.settings, &pause);
                    group.servers.push(spinner.server);
                    group.misfits.extend((!found.is_empty()).then_some(spinner.server));
                    misfits.extend(found.into_iter().map(|misfit| (misfit, spinner.server)));
                }
                group.servers.sort_unstable();
                group.misfits.sort_unstable();
                groups.push(group);
            }
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.servers.len()));
        (groups, misfits)
    }
}

/// Servers of one name, parted where one PAUSE is far longer than the shortest.
fn with_alike_pause(mut spinners: Vec<Spinner>) -> Vec<Vec<Spinner>> {
    spinners.sort_by(|a, b| a.pause.ns.total_cmp(&b.pause.ns));
    let mut parts: Vec<Vec<Spinner>> = Vec::new();
    for spinner in spinners {
        match parts.last_mut() {
            Some(part) if spinner.pause.ns <= SAME_PAUSE * part[0].pause.ns => part.push(spinner),
            _ => parts.push(vec![spinner]),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use spindoctor_model::host::CpuModel;
    use spindoctor_model::{Reading, Sample};

    use super::*;

    fn window(cpu: &str, ns: f64, multiplier: &str) -> Window {
        fn read<T>(value: T) -> Reading<T> {
            Reading::Available { at_s: 0.0, took_ms: 0.0, value }
        }
        let mut sample = Sample::default();
        let settings = [
            ("innodb_sync_spin_loops", "30"),
            ("innodb_spin_wait_delay", "6"),
            ("innodb_spin_wait_pause_multiplier", multiplier),
        ];
        sample.server.variables = read(settings.into_iter().collect());
        sample.host.pause = read(PauseLatency { ns, ..PauseLatency::default() });
        sample.host.cpu = read(CpuModel { name: cpu.to_owned(), ..CpuModel::default() });
        let mut window = Window { samples: vec![sample], ..Window::default() };
        window.server.version = ServerVersion::parse("8.0.36", "");
        window
    }

    #[test]
    fn one_disturbed_measurement_names_no_server_and_equal_servers_get_equal_advice() {
        let mut cpus = Cpus::default();
        for (server, ns) in [66.0, 64.0, 70.0, 66.5].into_iter().enumerate() {
            cpus.add(server, &window("4110", ns, "8"));
        }
        cpus.add(4, &window("4110", 67.0, "50"));
        cpus.add(5, &window("4110", 65.0, "50"));
        let (groups, misfits) = cpus.finish();
        assert_eq!(groups.len(), 1);
        assert_eq!(
            (groups[0].servers.as_slice(), groups[0].misfits.as_slice()),
            (&[0, 1, 2, 3, 4, 5][..], &[4, 5][..])
        );
        assert_eq!(misfits.len(), 2);
        assert_eq!(misfits[0].0, misfits[1].0);
    }

    #[test]
    fn one_name_with_two_lengths_of_a_pause_is_two_cpus_and_the_largest_group_comes_first() {
        let mut cpus = Cpus::default();
        cpus.add(0, &window("virtual", 66.0, "50"));
        cpus.add(1, &window("virtual", 10.9, "50"));
        cpus.add(2, &window("virtual", 11.2, "50"));
        let mut unknown = window("virtual", 66.0, "50");
        unknown.samples[0].host.pause = Reading::NotAsked;
        cpus.add(3, &unknown);
        let (groups, misfits) = cpus.finish();
        let listed: Vec<(&[usize], &[usize])> =
            groups.iter().map(|group| (group.servers.as_slice(), group.misfits.as_slice())).collect();
        assert_eq!(listed, [(&[1, 2][..], &[][..]), (&[0][..], &[0][..])]);
        assert_eq!(misfits.len(), 1);
    }
}
