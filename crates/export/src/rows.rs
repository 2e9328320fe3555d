//! The rows of each table, as they follow from what was recorded.

use serde::Serialize;
use spindoctor_model::{Event, Gap, RecordedSample, RecordedSetting, Segment};
use spindoctor_record::OverviewPoint;
use spindoctor_sessions::AtWork;

use super::table::{Account, Cell, EachRow, Whose, server};
use super::values::{self, Value};

fn count(number: u64) -> Cell<'static> {
    Cell::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn optional(number: Option<u64>) -> Cell<'static> {
    number.map_or(Cell::Nothing, count)
}

fn text(text: Option<&str>) -> Cell<'_> {
    text.map_or(Cell::Nothing, Cell::Text)
}

/// The name that a value has in JSON: `commits_stopped`.
pub fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Server, segment and time: what every row of a sample begins with.
fn head<'a>(whose: &Whose<'a>, recorded: &RecordedSample) -> [Cell<'a>; 3] {
    [Cell::Text(whose.server(recorded.segment)), count(recorded.segment), Cell::Time(recorded.at)]
}

pub(super) fn samples(
    whose: &Whose<'_>,
    recorded: &RecordedSample,
    each: &mut EachRow<'_>,
) -> anyhow::Result<()> {
    let [server, segment, time] = head(whose, recorded);
    values::each(&recorded.sample, &mut |Value { source, name, value }| {
        each(&[server, segment, time, Cell::Text(source), Cell::Text(name), Cell::Real(value)])
    })
}

pub(super) fn minutes(
    whose: &Whose<'_>,
    point: &OverviewPoint,
    each: &mut EachRow<'_>,
) -> anyhow::Result<()> {
    each(&[
        Cell::Text(whose.server(point.segment)),
        count(point.segment),
        Cell::Time(point.at),
        optional(point.uptime_s),
        optional(point.questions),
        optional(point.commits),
        optional(point.slow_queries),
        optional(point.threads_connected),
        optional(point.threads_running),
        optional(point.threads_running_max),
        optional(point.rows_read),
        optional(point.rows_changed),
        optional(point.checkpoint_age_bytes),
        optional(point.server_cpu_us),
        optional(point.host_busy_us),
        optional(point.host_idle_us),
        optional(point.throttled_us),
        optional(point.disk_read_bytes),
        optional(point.disk_written_bytes),
        point.replica_behind_s.map_or(Cell::Nothing, Cell::Real),
    ])
}

pub(super) fn session_time(
    whose: &Whose<'_>,
    account: &Account,
    each: &mut EachRow<'_>,
) -> anyhow::Result<()> {
    let Account { segment, at, seconds, time } = account;
    for part in &time.classes {
        each(&[
            Cell::Text(whose.server(*segment)),
            count(*segment),
            Cell::Time(*at),
            Cell::Real(*seconds),
            Cell::Text(&word(&part.class)),
            Cell::Real(part.share * time.session_seconds_per_second),
            Cell::Real(part.share),
            Cell::Text(&word(&part.known_by)),
        ])?;
    }
    Ok(())
}

/// A row for each class and statement; where nobody is at work one without a class, so that its time counts in a mean.
pub(super) fn sessions_at_work(
    whose: &Whose<'_>,
    list: &AtWork,
    each: &mut EachRow<'_>,
) -> anyhow::Result<()> {
    let [server, segment] = [Cell::Text(whose.server(list.segment)), count(list.segment)];
    let [time, seconds] = [Cell::Time(list.at), Cell::Real(list.seconds)];
    let has_lock_waits = Cell::Truth(list.has_lock_waits);
    if list.sightings.is_empty() {
        let [none, sessions] = [Cell::Nothing, Cell::Real(0.0)];
        return each(&[server, segment, time, seconds, none, none, sessions, none, none, has_lock_waits]);
    }
    fn known(said: &str) -> Cell<'_> {
        text(Some(said).filter(|said| !said.is_empty()))
    }
    for seen in &list.sightings {
        each(&[
            server,
            segment,
            time,
            seconds,
            Cell::Text(&word(&seen.class)),
            known(&seen.statement),
            Cell::Real(seen.sessions),
            known(&seen.state),
            Cell::Text(seen.known_by.name()),
            has_lock_waits,
        ])?;
    }
    Ok(())
}

pub(super) fn threads(
    whose: &Whose<'_>,
    recorded: &RecordedSample,
    each: &mut EachRow<'_>,
) -> anyhow::Result<()> {
    let [server, segment, time] = head(whose, recorded);
    for thread in recorded.sample.server.threads.value().into_iter().flatten() {
        each(&[
            server,
            segment,
            time,
            optional(thread.connection_id),
            optional(thread.thread_os_id),
            Cell::Text(&thread.name),
            Cell::Text(&thread.user),
            Cell::Text(&thread.host),
            Cell::Text(&thread.schema),
            Cell::Text(&thread.command),
            Cell::Real(thread.time_s),
            Cell::Text(&thread.state),
            text(thread.statement.as_deref()),
            text(thread.digest_text.as_deref()),
        ])?;
    }
    Ok(())
}

pub(super) fn thread_cpu(
    whose: &Whose<'_>,
    recorded: &RecordedSample,
    each: &mut EachRow<'_>,
) -> anyhow::Result<()> {
    let [server, segment, time] = head(whose, recorded);
    for thread in recorded.sample.host.threads.value().into_iter().flatten() {
        each(&[
            server,
            segment,
            time,
            Cell::Integer(thread.tid.into()),
            Cell::Text(&thread.name),
            Cell::Text(&thread.state),
            count(thread.user_us),
            count(thread.system_us),
            count(thread.ran_ns),
            count(thread.run_queue_ns),
        ])?;
    }
    Ok(())
}

pub(super) fn digests(
    whose: &Whose<'_>,
    recorded: &RecordedSample,
    each: &mut EachRow<'_>,
) -> anyhow::Result<()> {
    let [server, segment, time] = head(whose, recorded);
    for digest in recorded.sample.server.digests.value().into_iter().flatten() {
        each(&[
            server,
            segment,
            time,
            Cell::Text(&digest.schema),
            Cell::Text(&digest.digest),
            Cell::Text(&digest.text),
            count(digest.executions),
            count(digest.total_ns),
            count(digest.lock_ns),
            count(digest.rows_examined),
            count(digest.rows_sent),
            count(digest.rows_affected),
            count(digest.full_joins),
            count(digest.full_scans),
            count(digest.disk_temporary_tables),
        ])?;
    }
    Ok(())
}

pub(super) fn waits(
    whose: &Whose<'_>,
    recorded: &RecordedSample,
    each: &mut EachRow<'_>,
) -> anyhow::Result<()> {
    let [server, segment, time] = head(whose, recorded);
    for wait in recorded.sample.server.waits.value().into_iter().flatten() {
        each(&[server, segment, time, Cell::Text(&wait.event), count(wait.count), count(wait.total_ns)])?;
    }
    Ok(())
}

/// A row for a sample that read what does not change while the server runs: the first one of its segment.
pub(super) fn hosts(
    whose: &Whose<'_>,
    recorded: &RecordedSample,
    each: &mut EachRow<'_>,
) -> anyhow::Result<()> {
    let host = &recorded.sample.host;
    let (cpu, pause) = (host.cpu.value(), host.pause.value());
    if cpu.is_none() && pause.is_none() {
        return Ok(());
    }
    let [server, segment, time] = head(whose, recorded);
    let family_model = cpu.and_then(|cpu| cpu.family_model);
    let real = |number: Option<f64>| number.map_or(Cell::Nothing, Cell::Real);
    let granted = host.effective_cpus.value();
    each(&[
        server,
        segment,
        time,
        text(cpu.map(|cpu| cpu.name.as_str())),
        text(cpu.map(|cpu| cpu.vendor.as_str())),
        optional(family_model.map(|(family, _)| family.into())),
        optional(family_model.map(|(_, model)| model.into())),
        text(cpu.and_then(|cpu| cpu.microarchitecture.as_deref())),
        cpu.map_or(Cell::Nothing, |cpu| Cell::Truth(cpu.virtualised)),
        text(pause.map(|pause| pause.instruction.as_str())),
        real(pause.map(|pause| pause.ns)),
        real(pause.and_then(|pause| pause.core_cycles)),
        real(pause.and_then(|pause| pause.tsc_ticks)),
        real(granted.map(|granted| granted.cpus)),
        optional(granted.map(|granted| granted.online.into())),
        optional(host.numa.value().map(|nodes| nodes.len() as u64)),
    ])
}

pub(super) fn settings(
    whose: &Whose<'_>,
    setting: &RecordedSetting,
    each: &mut EachRow<'_>,
) -> anyhow::Result<()> {
    let value = text(setting.value.as_deref());
    each(&[Cell::Text(whose.first), Cell::Time(setting.at), Cell::Text(&setting.name), value])
}

pub(super) fn events(whose: &Whose<'_>, event: &Event, each: &mut EachRow<'_>) -> anyhow::Result<()> {
    let head = &event.head;
    each(&[
        Cell::Text(whose.server(head.segment)),
        count(head.segment),
        count(head.id),
        Cell::Time(head.began),
        head.ended.map_or(Cell::Nothing, Cell::Time),
        Cell::Text(&word(&head.stall.kind)),
        Cell::Text(&head.stall.because),
        text(head.cause.as_deref()),
        Cell::Text(&head.headline),
    ])
}

pub(super) fn findings(whose: &Whose<'_>, event: &Event, each: &mut EachRow<'_>) -> anyhow::Result<()> {
    let found = event.diagnosis.iter().flat_map(|diagnosis| &diagnosis.findings);
    for (rank, finding) in found.enumerate() {
        let root = finding.root.as_ref();
        each(&[
            Cell::Text(whose.server(event.head.segment)),
            count(event.head.id),
            count(rank as u64 + 1),
            Cell::Text(&finding.cause),
            Cell::Text(&word(&finding.severity)),
            Cell::Real(finding.score),
            Cell::Text(&finding.headline),
            Cell::Text(&finding.why),
            text(finding.remedies.first().map(|remedy| remedy.statement.as_str())),
            optional(root.and_then(|root| root.connection_id)),
            text(root.map(|root| root.user.as_str())),
            text(root.map(|root| root.statement.as_str())),
        ])?;
    }
    Ok(())
}

pub(super) fn wait_edges(whose: &Whose<'_>, event: &Event, each: &mut EachRow<'_>) -> anyhow::Result<()> {
    for recorded in &event.graphs {
        let thread = |place: u32| recorded.graph.threads.get(place as usize);
        for edge in &recorded.graph.edges {
            let (waiter, holder) = (thread(edge.waiter), edge.holder.and_then(thread));
            each(&[
                Cell::Text(whose.server(event.head.segment)),
                count(event.head.id),
                Cell::Time(recorded.at),
                optional(waiter.and_then(|thread| thread.connection_id)),
                optional(waiter.and_then(|thread| thread.thread_os_id)),
                optional(holder.and_then(|thread| thread.connection_id)),
                optional(holder.and_then(|thread| thread.thread_os_id)),
                Cell::Text(&word(&edge.kind)),
                Cell::Text(&edge.object),
                Cell::Text(&edge.mode),
                edge.waited_s.map_or(Cell::Nothing, Cell::Real),
                Cell::Truth(edge.is_inferred),
            ])?;
        }
    }
    Ok(())
}

pub(super) fn probes(whose: &Whose<'_>, event: &Event, each: &mut EachRow<'_>) -> anyhow::Result<()> {
    let Some(segment) = whose.segments.get(&event.head.segment) else { return Ok(()) };
    for probe in &event.probes {
        let after = std::time::Duration::try_from_secs_f64(probe.at_s).ok();
        let at = after.and_then(|after| segment.began.checked_add(after).ok());
        let failure = probe.failure.as_ref().map(word);
        each(&[
            Cell::Text(whose.server(segment.id)),
            count(segment.id),
            count(event.head.id),
            at.map_or(Cell::Nothing, Cell::Time),
            Cell::Real(probe.took_ms),
            Cell::Truth(probe.answered),
            failure.as_deref().map_or(Cell::Nothing, Cell::Text),
            optional(probe.threads_running),
            optional(probe.threads_connected),
            optional(probe.questions),
            optional(probe.commits),
            optional(probe.checkpoint_age_bytes),
        ])?;
    }
    Ok(())
}

pub(super) fn segments(_: &Whose<'_>, segment: &Segment, each: &mut EachRow<'_>) -> anyhow::Result<()> {
    each(&[
        Cell::Text(server(segment)),
        count(segment.id),
        Cell::Time(segment.began),
        Cell::Text(&segment.server.address),
        Cell::Text(&segment.server.version_text),
        optional(segment.server.pid.map(u64::from)),
        Cell::Text(&segment.written_by),
    ])
}

pub(super) fn gaps(whose: &Whose<'_>, gap: &Gap, each: &mut EachRow<'_>) -> anyhow::Result<()> {
    let to = gap.to.map_or(Cell::Nothing, Cell::Time);
    each(&[Cell::Text(whose.first), Cell::Time(gap.from), to, Cell::Text(&gap.because)])
}
