//! `spindoctor host` as text: what the kernel grants the server against what it believes, and who
//! uses it.

use super::view::{DiskRate, HostReport, ThreadRate};
use spindoctor_model::pause_fit::{LatchSpinFit, PauseFit, Verdict};
use spindoctor_page::number;
use spindoctor_page::number::{percent, quantity};
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, Page, QUIET, STRONG};

/// Columns of the labels.
const LABELS: usize = 20;

/// The report as text.
pub fn render(report: &HostReport, look: Look) -> String {
    let mut page = Page::new(look);
    head(&mut page, report);
    page.append(&sections(report, look));
    page.finish()
}

/// The report without its first line: the caller has already named the host.
pub fn sections(report: &HostReport, look: Look) -> String {
    let mut page = Page::new(look);
    section(&mut page, "CPUs", |page| cpus(page, report));
    section(&mut page, "Memory", |page| {
        memory(page, report);
        pages_between_nodes(page, report);
    });
    threads(&mut page, report.threads.as_deref().unwrap_or_default());
    disks(&mut page, report.disks.as_deref().unwrap_or_default());
    if !report.not_read.is_empty() {
        page.blank();
        page.paragraph("", "not read", QUIET);
        for missing in &report.not_read {
            let mut text = format!("{}: {}", missing.reading, safe(&missing.because));
            if !missing.unlock.is_empty() {
                text = format!("{text}; to enable: {}", safe(&missing.unlock));
            }
            page.hanging("    ", "  ", &text, QUIET);
        }
    }
    page.finish()
}

fn head(page: &mut Page, report: &HostReport) {
    let server = &report.server;
    let place = if server.hostname.is_empty() { &server.address } else { &server.hostname };
    let mut parts = vec![match (&server.version, &server.process) {
        (Some(version), _) => format!("{version} on {place}"),
        (None, Some(process)) => process.clone(),
        (None, None) => "A server without a session".to_owned(),
    }];
    parts.extend(server.pid.map(|pid| format!("pid {pid}")));
    parts.extend(report.server_cpu.as_ref().map(|cpu| number::counted(cpu.threads, "thread", "threads")));
    page.line_with_right(&safe(&parts.join(", ")), &number::tenths(report.seconds), STRONG, QUIET);
}

fn cpus(page: &mut Page, report: &HostReport) {
    if let Some(granted) = &report.effective_cpus {
        let why = match &granted.quota {
            Some(quota) if quota.cpus <= granted.cpus => format!(
                "  quota of {}: {} every {}",
                quota.cgroup,
                quantity(quota.quota_us as f64, "us"),
                quantity(quota.period_us as f64, "us")
            ),
            _ => String::new(),
        };
        page.field("effective", &safe(&format!("{}{why}", quantity(granted.cpus, "CPUs"))), LABELS);
    }
    if let Some(believes) = report.server_believes_cpus {
        let source = report.server_believes_source.as_deref().unwrap_or_default();
        page.field("the server counts", &format!("{}  {source}", quantity(believes.into(), "CPUs")), LABELS);
    }
    if let Some(granted) = &report.effective_cpus {
        let mut online = quantity(granted.online.into(), "CPUs");
        for (what, count) in [("cpuset", granted.cpuset), ("affinity", granted.affinity)] {
            if let Some(count) = count {
                online = format!("{online}, {what} {count}");
            }
        }
        page.field("online", &online, LABELS);
    }
    if let Some(throttled) = &report.throttled {
        page.field(
            "throttled",
            &format!(
                "{} of {} periods, {} summed over CPUs",
                throttled.throttled_periods,
                throttled.periods,
                quantity(throttled.throttled_ms, "ms")
            ),
            LABELS,
        );
    }
    if let Some(cpu) = &report.server_cpu {
        page.field(
            "the server uses",
            &format!(
                "{}  user {}, system {}",
                quantity(cpu.user_cpus + cpu.system_cpus, "CPUs"),
                number::plain(cpu.user_cpus),
                number::plain(cpu.system_cpus)
            ),
            LABELS,
        );
    }
    if let Some(host) = &report.host_cpu {
        page.field(
            "the host's CPUs",
            &format!(
                "user {}, system {}, I/O wait {}, steal {}, idle {}; {} runnable; {} context switches /s",
                percent(host.user_ratio),
                percent(host.system_ratio),
                percent(host.iowait_ratio),
                percent(host.steal_ratio),
                percent(host.idle_ratio),
                host.runnable,
                number::plain(host.context_switches_per_s.round())
            ),
            LABELS,
        );
    }
    if let Some(pressure) = &report.pressure {
        let parts: Vec<String> = [
            ("CPU", pressure.cpu_some_ratio),
            ("I/O", pressure.io_some_ratio),
            ("memory", pressure.memory_some_ratio),
        ]
        .iter()
        .filter_map(|(what, ratio)| Some(format!("{what} {}", percent((*ratio)?))))
        .collect();
        let whose = if pressure.cgroup.is_some() { "of its cgroup" } else { "of the host" };
        page.field("pressure", &format!("{} of the time, {whose}", parts.join(", ")), LABELS);
    }
    if let Some(pause) = &report.pause {
        let mut text = quantity(pause.ns, "ns");
        for (cycles, unit) in [(pause.core_cycles, "cycles"), (pause.tsc_ticks, "TSC ticks")] {
            if let Some(cycles) = cycles {
                text = format!("{text}, {}", quantity(cycles, unit));
            }
        }
        page.field(&pause.instruction.to_uppercase(), &text, LABELS);
    }
    if let Some(fit) = &report.pause_fit {
        page.field("expected", &safe(&expected(fit)), LABELS);
    }
    if let Some(spin) = &report.latch_spin {
        page.field("one full spin", &full_spin(spin), LABELS);
    }
    if let Some(cpu) = &report.cpu {
        let mut text = safe(&cpu.name);
        if let Some(architecture) = &cpu.microarchitecture {
            text = format!("{text}, {architecture}");
        }
        page.field("model", &format!("{text}{}", if cpu.virtualised { ", virtual" } else { "" }), LABELS);
    }
}

/// `44 cycles on Cascade Lake: as measured`, or why nothing is expected.
fn expected(fit: &PauseFit) -> String {
    let (Some((least, most)), Some(core)) = (fit.expected_cycles, fit.microarchitecture) else {
        return format!("unknown: {}", fit.because);
    };
    let cycles = if least < most {
        format!("{} to {}", number::plain(least), quantity(most, "cycles"))
    } else {
        quantity(most, "cycles")
    };
    let verdict = match fit.verdict {
        Verdict::AsExpected => "it fits",
        Verdict::Shorter => "the measured one is shorter: this may be another CPU than the one shown",
        Verdict::Longer => {
            "the measured one is longer: this may be another CPU than the one shown, or a slowed one"
        }
        Verdict::Unknown => &fit.because,
    };
    format!("{cycles} on {core}: {verdict}")
}

/// How long a full spin on a latch lasts, and what would fit where that is not as meant.
fn full_spin(spin: &LatchSpinFit) -> String {
    let us = |us: f64| quantity(us.round(), "us");
    let lasts = format!("{} with {}, {} were meant", us(spin.mean_us), spin.settings, us(spin.meant_us));
    if spin.fits {
        return format!("{lasts}: it fits");
    }
    let would_fit: Vec<String> =
        spin.would_fit.iter().map(|(variable, value)| format!("{variable} = {value:.0}")).collect();
    format!("{lasts}: {} would fit", would_fit.join(", "))
}

fn memory(page: &mut Page, report: &HostReport) {
    let bytes = |bytes: u64| number::bytes(bytes as f64);
    if let Some(memory) = &report.memory {
        let swapped = memory.swap_total_bytes.saturating_sub(memory.swap_free_bytes);
        let swap = match memory.swap_total_bytes {
            0 => "no swap".to_owned(),
            total => format!("{} of {} swap used", bytes(swapped), bytes(total)),
        };
        page.field(
            "host",
            &format!(
                "{}, {} available, {} page cache, {swap}",
                bytes(memory.total_bytes),
                bytes(memory.available_bytes),
                bytes(memory.cached_bytes),
            ),
            LABELS,
        );
        if let Some(limit) = memory.cgroup_limit_bytes {
            let used = memory.cgroup_used_bytes.map(bytes).unwrap_or_else(|| "unknown".to_owned());
            page.field("cgroup", &format!("{used} of {} used", bytes(limit)), LABELS);
        }
    }
    if let Some(server) = &report.server_cpu {
        page.field(
            "server",
            &format!(
                "{} resident, {} swapped, {} major faults /s",
                bytes(server.resident_bytes),
                bytes(server.swapped_bytes),
                number::plain(server.major_faults_per_s.round())
            ),
            LABELS,
        );
    }
    for node in report.numa.iter().flatten() {
        let server = match node.server_bytes {
            Some(held) => format!(", server {}", bytes(held)),
            None => String::new(),
        };
        let used = report.numa_cpus.iter().flatten().find(|used| used.node == node.id);
        let used = used.map_or(String::new(), |used| {
            format!(", its threads used {} on it", quantity((used.cpus * 100.0).round() / 100.0, "CPUs"))
        });
        page.field(
            &format!("NUMA node {}", node.id),
            &format!(
                "{}, {} of {} free{server}{used}",
                number::counted(node.cpus.len() as u64, "CPU", "CPUs"),
                bytes(node.free_bytes),
                bytes(node.total_bytes)
            ),
            LABELS,
        );
    }
}

/// How far memory was taken from the threads that took it.
fn pages_between_nodes(page: &mut Page, report: &HostReport) {
    if let Some(pages) = &report.numa_pages {
        let text = format!(
            "{} of {} pages that the host's programs took were on another node than the thread",
            percent(pages.on_another_node_ratio),
            number::plain(pages.taken as f64)
        );
        page.field("between nodes", &text, LABELS);
    }
}

fn threads(page: &mut Page, threads: &[ThreadRate]) {
    if threads.is_empty() {
        return;
    }
    heading(page, "Busiest threads");
    page.table(
        &[("tid", 10), ("name", -18), ("CPU", 8), ("user", 8), ("system", 8), ("waits for a CPU", 17)],
        threads.iter().map(|thread| {
            vec![
                thread.tid.to_string(),
                safe(&thread.name),
                percent(thread.cpus()),
                percent(thread.user_cpus),
                percent(thread.system_cpus),
                percent(thread.run_queue_ratio),
            ]
        }),
    );
}

fn disks(page: &mut Page, disks: &[DiskRate]) {
    if disks.is_empty() {
        return;
    }
    heading(page, "Disks");
    let ms = |mean: Option<f64>| mean.map(|mean| quantity(mean, "ms")).unwrap_or_else(|| "-".to_owned());
    page.table(
        &[
            ("name", -10),
            ("reads /s", 9),
            ("each", 8),
            ("writes /s", 10),
            ("each", 8),
            ("flushes /s", 11),
            ("each", 8),
            ("busy", 7),
        ],
        disks.iter().map(|disk| {
            vec![
                safe(&disk.name),
                number::plain(disk.reads_per_s.round()),
                ms(disk.read_ms),
                number::plain(disk.writes_per_s.round()),
                ms(disk.write_ms),
                disk.flushes_per_s.map(|rate| number::plain(rate.round())).unwrap_or_else(|| "-".to_owned()),
                ms(disk.flush_ms),
                percent(disk.busy_ratio),
            ]
        }),
    );
}

fn heading(page: &mut Page, text: &str) {
    page.blank();
    page.paragraph("", text, STRONG);
}

/// A section, which is left out where there is nothing in it.
fn section(page: &mut Page, title: &str, fill: impl FnOnce(&mut Page)) {
    let mut filled = Page::new(page.look);
    fill(&mut filled);
    let filled = filled.finish();
    if !filled.is_empty() {
        heading(page, title);
        page.append(&filled);
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::*;

    use crate::host::examples::throttled_window;

    #[test]
    fn a_throttled_host_reads_well_at_80_columns() {
        let text = render(&HostReport::from_window(&throttled_window()), Look { width: 80, colour: false });
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }
}
