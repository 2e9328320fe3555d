//! `spindoctor cache` as text: which files fill the page cache, the part that nobody needs, and the evicted part.

use spindoctor_model::page_cache::CachedFile;

use super::settings::Opened;
use super::view::{CacheReport, Eviction, Kind, Rate};
use spindoctor_page::number;
use spindoctor_page::number::quantity;
use spindoctor_page::safe::safe;
use spindoctor_page::text::{Look, PLAIN, Page, QUIET, STRONG, ending};

/// Columns of the labels.
const LABELS: usize = 14;
/// Files that are listed, those first that hold the most.
const LISTED: usize = 8;
/// A file below this is not worth a line.
const LISTED_FROM_BYTES: u64 = 1 << 20;

/// The report as text.
pub fn render(report: &CacheReport, look: Look) -> String {
    let mut page = Page::new(look);
    let server = report.server.name.as_deref().unwrap_or("A server without a session");
    let files = number::counted(report.files.len() as u64, "file", "files");
    let head = format!("{server}, pid {}, {files}", report.server.pid);
    page.line_with_right(&safe(&head), &number::tenths(report.seconds), STRONG, QUIET);
    page.blank();
    page.paragraph("", &headline(report), PLAIN);
    page.blank();
    kinds(&mut page, report);
    memory(&mut page, report);
    if let Some(eviction) = &report.eviction {
        taken_out(&mut page, eviction);
    }
    largest(&mut page, &report.files);
    if !report.kept.is_empty() {
        section(&mut page, "Logs that stay");
        for kept in &report.kept {
            let files = number::counted(kept.files, "file", "files");
            let text =
                format!("{} of {files} of {}: {}", bytes(kept.cached_bytes), kept.kind.name(), kept.because);
            page.hanging("    ", "  ", &safe(&text), PLAIN);
        }
    }
    if !report.settings.is_empty() {
        section(&mut page, "Settings");
        for setting in &report.settings {
            page.hanging("    ", "  ", &safe(&format!("{}: {}.", setting.setting, setting.means)), PLAIN);
        }
    }
    if !report.notes.is_empty() {
        page.blank();
        page.paragraph("", "not read", QUIET);
        for note in &report.notes {
            page.hanging("    ", "  ", &safe(note), QUIET);
        }
    }
    page.blank();
    page.paragraph("", &cost(report), QUIET);
    page.finish()
}

/// One line for each time that logs were taken out.
pub fn line(report: &CacheReport) -> Option<String> {
    let eviction = report.eviction.as_ref()?;
    let at = report.at.strftime("%Y-%m-%dT%H:%M:%SZ");
    let left: u64 =
        eviction.changes.iter().filter(|change| change.kind.is_log()).map(|change| change.after_bytes).sum();
    Some(format!(
        "{at} {} of logs taken out of the page cache in {}, {} stay\n",
        bytes(eviction.freed_bytes()),
        quantity(eviction.took_ms.round(), "ms"),
        bytes(left)
    ))
}

fn bytes(bytes: u64) -> String {
    number::bytes(bytes as f64)
}

/// What of a list has no count is not known.
fn or_unknown(bytes_known: Option<u64>) -> String {
    bytes_known.map_or("unknown".to_owned(), bytes)
}

fn section(page: &mut Page, title: &str) {
    page.blank();
    let title = page.paint(STRONG, title);
    page.push(&title);
}

fn headline(report: &CacheReport) -> String {
    let logs = report.kinds.iter().filter(|kind| kind.kind.is_log());
    let Some(logs_bytes) = logs.map(|kind| kind.cached_bytes).sum::<Option<u64>>() else {
        return "How much of the page cache holds logs is not known: not all files could be counted."
            .to_owned();
    };
    let whole = report.memory.as_ref().map(|memory| {
        format!("The page cache holds {} of {}. ", bytes(memory.cached_bytes), bytes(memory.total_bytes))
    });
    let nobody = match (report.evictable_bytes, &report.eviction) {
        (_, Some(eviction)) => format!("; {} were taken out", bytes(eviction.freed_bytes())),
        (0, None) => ", all of it to be read or written soon".to_owned(),
        (evictable, None) => format!(", of which nobody will read {} soon", bytes(evictable)),
    };
    let nobody = if logs_bytes == 0 { String::new() } else { nobody };
    let of = if whole.is_some() { "it" } else { "the page cache" };
    format!(
        "{}Redo, binary and relay logs hold {} of {of}{nobody}.",
        whole.unwrap_or_default(),
        bytes(logs_bytes)
    )
}

fn kinds(page: &mut Page, report: &CacheReport) {
    let rate = |per_s: Option<f64>| per_s.map_or("-".to_owned(), number::bytes);
    let row = |kind: &Kind| {
        let Rate { read_bytes_per_s, written_bytes_per_s } = kind.rate;
        vec![
            kind.kind.name().to_owned(),
            number::plain(kind.files as f64),
            bytes(kind.bytes),
            or_unknown(kind.cached_bytes),
            kind.dirty_bytes.map_or("-".to_owned(), bytes),
            rate(read_bytes_per_s),
            rate(written_bytes_per_s),
            kind.opened.map_or("-", Opened::label).to_owned(),
        ]
    };
    let mut rows: Vec<Vec<String>> = report.kinds.iter().map(row).collect();
    let dash = || "-".to_owned();
    if let Some(others) = report.others_bytes {
        rows.push(vec!["others".to_owned(), dash(), dash(), bytes(others), dash(), dash(), dash(), dash()]);
    }
    page.table(
        &[
            ("", -12),
            ("files", 7),
            ("size", 10),
            ("cached", 10),
            ("dirty", 9),
            ("read /s", 10),
            ("written /s", 11),
            ("open", 9),
        ],
        rows.into_iter(),
    );
}

fn memory(page: &mut Page, report: &CacheReport) {
    page.blank();
    if let Some(memory) = &report.memory {
        page.field(
            "memory",
            &format!(
                "{}, of which {} are available",
                bytes(memory.total_bytes),
                bytes(memory.available_bytes)
            ),
            LABELS,
        );
        if let Some(limit) = memory.cgroup_limit_bytes {
            let used = or_unknown(memory.cgroup_used_bytes);
            page.field("cgroup", &format!("{used} of {} used, page cache included", bytes(limit)), LABELS);
        }
    }
    if let Some(storage) = &report.storage {
        let rate =
            |per_s: Option<f64>| per_s.map_or("unknown".to_owned(), |per_s| quantity(per_s, "bytes/s"));
        page.field(
            "storage",
            &format!(
                "the server reads {} from it and writes {}",
                rate(storage.read_bytes_per_s),
                rate(storage.written_bytes_per_s)
            ),
            LABELS,
        );
    }
    if let Some(pool) = report.buffer_pool_bytes {
        let spare = report.eviction.as_ref().map_or(report.evictable_bytes, Eviction::freed_bytes);
        let could_be = match (spare, &report.eviction) {
            (0, _) => String::new(),
            (spare, evicted) => format!(
                "; with the memory that logs {} for nobody it could be {}, {} more",
                if evicted.is_some() { "held" } else { "hold" },
                bytes(pool + spare),
                number::percent(spare as f64 / pool.max(1) as f64)
            ),
        };
        page.field("buffer pool", &format!("{}{could_be}", bytes(pool)), LABELS);
    }
    if report.evictable_bytes > 0 && report.eviction.is_none() {
        page.field(
            "do",
            "spindoctor cache --evict logs takes it out, with --follow it stays out; neither touches data files",
            LABELS,
        );
    }
}

fn taken_out(page: &mut Page, eviction: &Eviction) {
    let files = number::counted(eviction.files, "file", "files");
    section(page, &format!("Taken out of {files} in {}", quantity(eviction.took_ms.ceil(), "ms")));
    page.table(
        &[("", -12), ("before", 12), ("after", 12), ("of it dirty", 13)],
        eviction.changes.iter().map(|change| {
            vec![
                change.kind.name().to_owned(),
                bytes(change.before_bytes),
                bytes(change.after_bytes),
                change.dirty_bytes.map_or("-".to_owned(), bytes),
            ]
        }),
    );
    for failed in &eviction.failed {
        page.hanging("    ", "  ", &safe(failed), QUIET);
    }
}

fn largest(page: &mut Page, files: &[CachedFile]) {
    let mut files: Vec<(&CachedFile, u64)> = files
        .iter()
        .filter_map(|file| Some((file, file.cached_bytes.filter(|&cached| cached >= LISTED_FROM_BYTES)?)))
        .collect();
    if files.is_empty() {
        return;
    }
    files.sort_by_key(|(_, cached)| std::cmp::Reverse(*cached));
    let rest = files.len().saturating_sub(LISTED);
    section(page, "Files that hold the most");
    let room = i32::try_from(page.look.width.saturating_sub(32)).unwrap_or(40);
    page.table(
        &[("", -12), ("path", -room), ("cached", 10)],
        files
            .iter()
            .take(LISTED)
            .map(|(file, cached)| vec![file.kind.name().to_owned(), path(&file.path, room), bytes(*cached)]),
    );
    if rest > 0 {
        page.paragraph("    ", &format!("and {rest} more of a MiB and more; --json lists all"), QUIET);
    }
}

/// A path that is too long is shown by its end, which distinguishes files.
fn path(path: &str, room: i32) -> String {
    // A cell that fills its column would be cut.
    ending(&safe(path), usize::try_from(room).unwrap_or_default().saturating_sub(1))
}

fn cost(report: &CacheReport) -> String {
    let asked = match report.cost.server_queries {
        0 => "no query".to_owned(),
        queries => format!(
            "{}, answered in {}",
            number::counted(queries, "query", "queries"),
            quantity(report.cost.server_busy_ms.ceil(), "ms")
        ),
    };
    format!(
        "cost: {asked}, own CPU {}; {} counted {} in {}, and read none",
        quantity(report.cost.own_cpu_ms.ceil(), "ms"),
        report.method,
        number::counted(report.files.len() as u64, "file", "files"),
        quantity(report.look_ms.ceil(), "ms")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::cache::examples;
    use spindoctor_page::json;

    fn text(report: &CacheReport, width: usize) -> String {
        render(report, Look { width, colour: false })
    }

    #[test]
    fn logs_in_the_way_read_well_at_100_columns() {
        insta::assert_snapshot!(text(&examples::logs_in_the_way(), 100));
    }

    #[test]
    fn what_was_taken_out_is_shown_with_before_and_after() {
        let text = text(&examples::logs_taken_out(), 100);
        insta::assert_snapshot!(text);
        let line = line(&examples::logs_taken_out()).unwrap();
        assert_eq!(
            line,
            "2026-07-01T09:30:00Z 6 GiB of logs taken out of the page cache in 412 ms, 4 GiB stay\n"
        );
    }

    #[test]
    fn every_line_fits_and_nothing_steers_the_terminal() {
        for report in [examples::logs_in_the_way(), examples::logs_taken_out(), examples::hostile()] {
            for width in [80, 100] {
                let text = text(&report, width);
                for line in text.lines() {
                    assert!(line.chars().count() <= width, "{width}: {line}");
                    assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{line:?}");
                }
            }
        }
    }

    #[test]
    fn the_json_has_what_others_rest_on() {
        let text = json::to_text(&examples::logs_taken_out()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["schema"], "spindoctor.cache/1");
        let file = &json["files"][1];
        assert_eq!(
            (file["path"].as_str(), file["kind"].as_str()),
            (Some("/var/lib/mysql/binlog.000041"), Some("binlog"))
        );
        assert_eq!((file["bytes"].as_u64(), file["cached_bytes"].as_u64()), (Some(6 << 30), Some(6 << 30)));
        let kinds: Vec<_> =
            json["kinds"].as_array().unwrap().iter().map(|kind| kind["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["data", "undo", "redo", "binlog"]);
        assert_eq!(json["eviction"]["changes"][2]["after_bytes"].as_u64(), Some(3 << 30));
        let unknown = json::to_text(&examples::hostile()).unwrap();
        let unknown: serde_json::Value = serde_json::from_str(&unknown).unwrap();
        assert_eq!(unknown["files"][1]["cached_bytes"], serde_json::Value::Null);
    }

    #[test]
    fn a_long_path_is_shown_by_its_end() {
        assert_eq!(path("/var/lib/mysql/binlog.000041", 12), "…log.000041");
        assert_eq!(path("/x", 12), "/x");
    }
}
