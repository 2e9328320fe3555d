//! The read-workload panel: the reads behind what a server sends, each reading as a rate, with remarks on odd ones.
//!
//! In: a window with the server's status, and the speeds of its links and its disk. Out: [`Line`]s. Pure. The choice of
//! readings follows Domas Mituzas's essay *MySQL metrics for read workloads*.

use spindoctor_collect::host::block_device::BlockDevice;
use spindoctor_collect::host::network_links::NetworkLink;
use spindoctor_model::Window;

use super::words::amount;
use spindoctor_page::number;

/// A link that is used for more than this of its speed is near its end: at 120 of the 125 MB/s of a gigabit packets wait.
const LINK_FULL: f64 = 0.7;
/// A connection for fewer statements than this: clients connect for each query, or nearly. Pools use one for thousands.
const STATEMENTS_PER_CONNECTION: f64 = 10.0;
/// Connections that matter at all, a second.
const CONNECTIONS_PER_S: f64 = 5.0;
/// A thread is made for more than this part of the connections: the thread cache does not do its work.
const THREADS_CREATED: f64 = 0.1;
/// What connectors do for themselves (SET, ping, USE) is worth a word from this part of the statements on.
const HOUSEKEEPING: f64 = 0.25;
/// Rows read for each that is sent, and rows a second, from which on a plan may have gone wrong: `rows-read-waste`.
const ROWS_PER_ROW: f64 = 100.0;
const ROWS_PER_S: f64 = 50_000.0;
/// Pages read from files a second, from which on storage matters: what a disk that turns can do.
const PAGES_PER_S: f64 = 100.0;
/// Rows for each page that is read from a file: below this the working set does not fit.
const ROWS_PER_PAGE_READ: f64 = 100.0;
/// Pages read for each that a statement waits for: above this read-ahead does most of the reading.
const READ_AHEAD: f64 = 2.0;
/// Reads that may be pending on a disk that turns: "multiples of your disk count".
const PENDING_ROTATING: f64 = 4.0;
/// And on flash: "on flash it can already mean something is odd".
const PENDING_FLASH: f64 = 1.0;
/// More threads run for each CPU than this: they queue for the CPUs, or for each other.
const RUNNING_PER_CPU: f64 = 2.0;
/// Pages that are visited for each row: a tree of four levels takes four, and this is five times as many.
const REQUESTS_PER_ROW: f64 = 20.0;
/// Ratios of fewer rows a second say nothing.
const ENOUGH_ROWS_PER_S: f64 = 100.0;

/// What is known of the host, beside the window.
#[derive(Debug, Clone, PartialEq)]
pub struct Ground {
    /// The host's links; none where they were not read.
    pub links: Vec<NetworkLink>,
    /// The disk below the data, or why it is not known.
    pub device: Result<BlockDevice, String>,
    /// Rows that were sent meanwhile, where the status does not count them.
    pub rows_sent: Option<f64>,
}

/// A reading of the panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What it is: `rows read`.
    pub reading: &'static str,
    /// How much; None where the server does not say.
    pub value: Option<f64>,
    /// In which unit: `1/s`, `bytes/s`, empty for counts and ratios.
    pub unit: &'static str,
    /// Where it is read.
    pub source: &'static str,
    /// What it is to be compared with, in words; why there is no value, where there is none.
    pub beside: String,
    /// What is odd about it; empty where nothing is.
    pub odd: String,
}

impl Line {
    /// As people read it.
    pub fn shown(&self) -> String {
        self.value.map_or_else(|| "unknown".to_owned(), |value| number::quantity(rounded(value), self.unit))
    }
}

/// The panel, or why there is none.
pub fn panel(window: &Window, ground: &Ground) -> Result<Vec<Line>, String> {
    window.need_change(|s| &s.server.status).map_err(|why| why.because)?;
    let rows_per_s = rows_read_per_s(window);
    Ok(vec![
        questions(window),
        connections(window),
        bytes_sent(window, ground),
        line("rows read", "1/s", "Innodb_rows_read", rows_per_s, "", ""),
        rows_per_row_sent(window, rows_per_s, ground),
        page_reads(window, rows_per_s),
        data_reads(window),
        pages_read(window),
        pending_reads(window, ground),
        threads_running(window),
        requests_per_row(window, rows_per_s),
    ])
}

fn line(
    reading: &'static str,
    unit: &'static str,
    source: &'static str,
    value: Option<f64>,
    beside: impl Into<String>,
    odd: impl Into<String>,
) -> Line {
    let mut beside: String = beside.into();
    if value.is_none() && beside.is_empty() {
        beside = format!("this server does not count {source}");
    }
    Line {
        reading,
        value,
        unit,
        source,
        beside,
        odd: if value.is_some() { odd.into() } else { String::new() },
    }
}

fn questions(window: &Window) -> Line {
    let per_s = window.status_per_s("Questions");
    let own: f64 = ["Com_set_option", "Com_admin_commands", "Com_change_db"]
        .iter()
        .filter_map(|name| window.status_per_s(name))
        .sum();
    let odd = match per_s {
        Some(all) if all >= 1.0 && own >= HOUSEKEEPING * all => format!(
            "{} are SET, ping and USE, which connectors do for themselves",
            number::percent((own / all).min(1.0))
        ),
        _ => String::new(),
    };
    line("questions", "1/s", "Questions", per_s, "", odd)
}

fn connections(window: &Window) -> Line {
    let per_s = window.status_per_s("Connections");
    let (mut beside, mut odd) = (String::new(), Vec::new());
    if let (Some(connections), Some(questions)) = (per_s, window.status_per_s("Questions")) {
        let each = questions / connections.max(f64::MIN_POSITIVE);
        if connections > 0.0 {
            beside = format!("one for every {}", amount(rounded(each), "statement", "statements"));
        }
        if connections >= CONNECTIONS_PER_S && each < STATEMENTS_PER_CONNECTION {
            odd.push("clients connect for a statement or two: a pool would save most of it".to_owned());
        }
        let created = window.status_per_s("Threads_created").unwrap_or(0.0);
        if connections >= CONNECTIONS_PER_S && created > THREADS_CREATED * connections {
            let share = number::percent((created / connections).min(1.0));
            odd.push(format!("a thread is made for {share} of them: thread_cache_size is too small"));
        }
    }
    line("connections", "1/s", "Connections", per_s, beside, odd.join("; "))
}

fn bytes_sent(window: &Window, ground: &Ground) -> Line {
    let per_s = window.status_per_s("Bytes_sent");
    let fastest = ground
        .links
        .iter()
        .filter_map(|link| Some((link, link.bytes_per_s?)))
        .max_by_key(|(_, speed)| *speed);
    let (mut beside, mut odd) = (String::new(), String::new());
    match (per_s, fastest) {
        (Some(bytes), Some((link, speed))) => {
            let share = bytes / speed as f64;
            let gigabits = number::plain(rounded(speed as f64 * 8.0 / 1e9));
            beside = format!("{} of {}, {gigabits} Gbit/s", number::percent(share), link.name);
            if share >= LINK_FULL {
                odd = "the network is nearly full: answers wait for it".to_owned();
            }
        }
        (Some(_), None) => beside = "no link of this host reports its speed".to_owned(),
        (None, _) => {}
    }
    line("bytes sent", "bytes/s", "Bytes_sent", per_s, beside, odd)
}

/// Rows that the storage engine handed out; MariaDB counts only those of the handler.
fn rows_read_per_s(window: &Window) -> Option<f64> {
    if let Some(rows) = window.status_per_s("Innodb_rows_read").filter(|rows| *rows > 0.0) {
        return Some(rows);
    }
    ["first", "key", "last", "next", "prev", "rnd", "rnd_next"]
        .iter()
        .filter_map(|kind| window.status_per_s(&format!("Handler_read_{kind}")))
        .reduce(|a, b| a + b)
}

fn rows_per_row_sent(window: &Window, rows_per_s: Option<f64>, ground: &Ground) -> Line {
    let seconds = window.change(|s| &s.server.status).map(|change| change.seconds);
    let counted = ground.rows_sent.and_then(|rows| Some(rows / seconds?));
    let sent = window.status_per_s("Rows_sent").or(counted);
    let (ratio, beside) = match (rows_per_s, sent) {
        (Some(read), Some(sent)) if read >= 1.0 => {
            (Some(read / sent.max(1.0)), format!("{} sent a second", amount(rounded(sent), "row", "rows")))
        }
        (Some(_), Some(_)) => (None, "hardly a row is read".to_owned()),
        _ => (None, "the number of rows sent is not known".to_owned()),
    };
    let odd = match (rows_per_s, ratio) {
        (Some(read), Some(ratio)) if read >= ROWS_PER_S && ratio >= ROWS_PER_ROW => {
            "far more is read than shown: a plan gone wrong, a missing index, or a logical backup \
             (spindoctor explain rows-read-waste)"
        }
        _ => "",
    };
    line("rows read for each sent", "", "Innodb_rows_read, Rows_sent", ratio, beside, odd)
}

fn page_reads(window: &Window, rows_per_s: Option<f64>) -> Line {
    let per_s = window.status_per_s("Innodb_buffer_pool_reads");
    let (mut beside, mut odd) = (String::new(), String::new());
    if let (Some(reads), Some(rows)) = (per_s, rows_per_s)
        && reads > 0.0
    {
        let each = rows / reads;
        beside = format!("one for every {}", amount(rounded(each), "row", "rows"));
        if reads >= PAGES_PER_S && each < ROWS_PER_PAGE_READ {
            odd = "rows come from storage: better locality, smaller rows, or more memory".to_owned();
        }
    }
    line("page reads waited for", "1/s", "Innodb_buffer_pool_reads", per_s, beside, odd)
}

fn data_reads(window: &Window) -> Line {
    let per_s = window.status_per_s("Innodb_data_reads");
    let bytes = window.status_per_s("Innodb_data_read");
    let beside = match (per_s, bytes) {
        (Some(reads), Some(bytes)) if reads > 0.0 => format!("{} each", number::bytes(bytes / reads)),
        _ => String::new(),
    };
    line("data reads", "1/s", "Innodb_data_reads", per_s, beside, "")
}

fn pages_read(window: &Window) -> Line {
    let per_s = window.status_per_s("Innodb_pages_read");
    let waited = window.status_per_s("Innodb_buffer_pool_reads");
    let odd = match (per_s, waited) {
        (Some(pages), Some(waited)) if pages >= PAGES_PER_S && pages >= READ_AHEAD * waited.max(1.0) => {
            format!(
                "read-ahead reads {} for each that a statement waits for",
                number::plain(rounded(pages / waited.max(1.0)))
            )
        }
        _ => String::new(),
    };
    line("pages read", "1/s", "Innodb_pages_read", per_s, "", odd)
}

fn pending_reads(window: &Window, ground: &Ground) -> Line {
    const SOURCE: &str = "Innodb_data_pending_reads";
    let series = window.status_series(SOURCE);
    let mean = mean(series.iter().map(|(_, pending)| *pending));
    let most = series.iter().map(|(_, pending)| *pending).fold(0.0, f64::max);
    let (mut beside, mut odd) = (String::new(), Vec::new());
    if let Some(pending) = mean {
        beside = format!("at most {}", number::plain(most));
        match &ground.device {
            Ok(device) => {
                let kind = if device.rotational { "a disk that turns" } else { "flash" };
                beside = format!(
                    "{beside}; {} is {kind} and queues {}",
                    device.name,
                    number::counted(device.queued_requests, "request", "requests")
                );
                let bound = if device.rotational { PENDING_ROTATING } else { PENDING_FLASH };
                if pending >= device.queued_requests as f64 {
                    odd.push("more than the device takes at once: they queue before it".to_owned());
                } else if pending >= bound {
                    odd.push(format!("on {kind} that is a queue"));
                }
            }
            Err(why) => beside = format!("{beside}; the device is not known: {why}"),
        }
        if let Some(tickets) =
            window.variable_number("innodb_thread_concurrency").filter(|tickets| *tickets > 0.0)
        {
            let threads = amount(tickets, "thread", "threads");
            odd.push(format!("innodb_thread_concurrency lets no more than {threads} in"));
        }
    }
    line("pending reads", "", SOURCE, mean, beside, odd.join("; "))
}

fn threads_running(window: &Window) -> Line {
    const SOURCE: &str = "Threads_running";
    let others = |running: f64| (running - 1.0).max(0.0);
    let series = window.status_series(SOURCE);
    let mean = mean(series.iter().map(|(_, running)| others(*running)));
    let most = series.iter().map(|(_, running)| others(*running)).fold(0.0, f64::max);
    let cpus = window.latest(|s| &s.host.effective_cpus).map(|effective| effective.cpus);
    let (mut beside, mut odd) = (String::new(), String::new());
    if let Some(running) = mean {
        beside = format!("at most {}", number::plain(most));
        if let Some(cpus) = cpus {
            beside = format!("{beside}; {}", number::quantity(cpus, "CPUs"));
            if running > RUNNING_PER_CPU * cpus {
                odd = format!("{} for each CPU: they queue", number::plain(rounded(running / cpus)));
            }
        }
    }
    line("threads running", "", SOURCE, mean, beside, odd)
}

fn requests_per_row(window: &Window, rows_per_s: Option<f64>) -> Line {
    let requests = window.status_per_s("Innodb_buffer_pool_read_requests");
    let ratio =
        requests.zip(rows_per_s).filter(|(_, rows)| *rows >= ENOUGH_ROWS_PER_S).map(|(r, rows)| r / rows);
    let (beside, odd) = match (requests, ratio) {
        (Some(requests), Some(ratio)) if ratio >= REQUESTS_PER_ROW => (
            per_second(requests),
            "far more pages are visited than rows need: range estimates of the optimizer (index dives), or deep trees",
        ),
        (Some(requests), Some(_)) => (per_second(requests), ""),
        (Some(_), None) => ("hardly a row is read".to_owned(), ""),
        (None, _) => (String::new(), ""),
    };
    line("read requests for each row", "", "Innodb_buffer_pool_read_requests", ratio, beside, odd)
}

fn per_second(requests: f64) -> String {
    format!("{} a second", amount(rounded(requests), "request", "requests"))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// A hundred and more without decimals, less with two: the precision of a sample of some seconds.
fn rounded(value: f64) -> f64 {
    if value.abs() >= 100.0 { value.round() } else { (value * 100.0).round() / 100.0 }
}

#[cfg(test)]
mod tests {
    use spindoctor_model::host::EffectiveCpus;
    use spindoctor_model::mysql::NamedValues;
    use spindoctor_model::{Reading, Sample};

    use super::*;

    /// Ten seconds of counters that grow evenly, and of gauges.
    fn window(counters: &[(&str, f64)], gauges: &[(&str, f64)]) -> Window {
        let samples = (0..=10).map(|at| {
            let at_s = f64::from(at);
            let mut status = NamedValues::default();
            for (name, per_s) in counters {
                status.insert(name, format!("{:.0}", 1_000.0 + per_s * at_s));
            }
            for (name, value) in gauges {
                status.insert(name, format!("{value}"));
            }
            let mut sample = Sample { at_s, ..Sample::default() };
            sample.server.status = Reading::Available { at_s, took_ms: 1.0, value: status };
            let cpus = EffectiveCpus { cpus: 2.0, online: 2, ..EffectiveCpus::default() };
            sample.host.effective_cpus = Reading::Available { at_s, took_ms: 0.0, value: cpus };
            sample
        });
        Window { samples: samples.collect(), ..Window::default() }
    }

    fn ground() -> Ground {
        let device = BlockDevice { name: "nvme0n1".into(), rotational: false, queued_requests: 1_023 };
        Ground {
            links: vec![NetworkLink { name: "eth0".into(), bytes_per_s: Some(125_000_000) }],
            device: Ok(device),
            rows_sent: None,
        }
    }

    fn find<'a>(lines: &'a [Line], reading: &str) -> &'a Line {
        lines.iter().find(|line| line.reading == reading).unwrap()
    }

    #[test]
    fn a_calm_server_has_nothing_odd() {
        let calm = window(
            &[
                ("Questions", 900.0),
                ("Connections", 0.5),
                ("Bytes_sent", 2e6),
                ("Rows_sent", 900.0),
                ("Innodb_rows_read", 1_800.0),
                ("Innodb_buffer_pool_reads", 1.0),
                ("Innodb_data_reads", 1.0),
                ("Innodb_data_read", 16_384.0),
                ("Innodb_pages_read", 1.0),
                ("Innodb_buffer_pool_read_requests", 7_200.0),
            ],
            &[("Threads_running", 3.0), ("Innodb_data_pending_reads", 0.0)],
        );
        let lines = panel(&calm, &ground()).unwrap();
        assert_eq!(lines.len(), 11);
        assert!(lines.iter().all(|line| line.odd.is_empty() && line.value.is_some()), "{lines:#?}");
        assert_eq!(find(&lines, "questions").shown(), "900 /s");
        assert_eq!(find(&lines, "bytes sent").beside, "1.6 % of eth0, 1 Gbit/s");
        assert_eq!(find(&lines, "rows read for each sent").value, Some(2.0));
        assert_eq!(find(&lines, "data reads").beside, "16 KiB each");
        assert_eq!(find(&lines, "threads running").value, Some(2.0), "its own session is not counted");
        assert_eq!(find(&lines, "read requests for each row").value, Some(4.0));
    }

    #[test]
    fn what_is_odd_is_said_in_words() {
        let odd = window(
            &[
                ("Questions", 900.0),
                ("Com_set_option", 400.0),
                ("Connections", 300.0),
                ("Threads_created", 200.0),
                ("Bytes_sent", 1.1e8),
                ("Rows_sent", 100.0),
                ("Innodb_rows_read", 90_000.0),
                ("Innodb_buffer_pool_reads", 2_000.0),
                ("Innodb_data_reads", 2_000.0),
                ("Innodb_pages_read", 8_000.0),
                ("Innodb_buffer_pool_read_requests", 2_700_000.0),
            ],
            &[("Threads_running", 41.0), ("Innodb_data_pending_reads", 6.0)],
        );
        let lines = panel(&odd, &ground()).unwrap();
        for (reading, words) in [
            ("questions", "44 % are SET, ping and USE"),
            ("connections", "a pool would save most of it; a thread is made for 67 %"),
            ("bytes sent", "nearly full"),
            ("rows read for each sent", "a plan gone wrong"),
            ("page reads waited for", "rows come from storage"),
            ("pages read", "read-ahead reads 4 for each"),
            ("pending reads", "on flash that is a queue"),
            ("threads running", "20 for each CPU"),
            ("read requests for each row", "index dives"),
        ] {
            assert!(find(&lines, reading).odd.contains(words), "{reading}: {:?}", find(&lines, reading));
        }
    }

    #[test]
    fn what_a_server_does_not_count_is_unknown_and_never_zero() {
        let lines = panel(
            &window(&[("Questions", 10.0)], &[]),
            &Ground { device: Err("--remote was given".into()), ..ground() },
        )
        .unwrap();
        let sent = find(&lines, "rows read for each sent");
        assert_eq!((sent.value, sent.shown().as_str()), (None, "unknown"));
        assert_eq!(find(&lines, "bytes sent").beside, "this server does not count Bytes_sent");
        assert!(panel(&Window::default(), &ground()).is_err());
        // MySQL counts the rows that it sends elsewhere.
        let rows = window(&[("Innodb_rows_read", 1_000.0)], &[]);
        let lines = panel(&rows, &Ground { rows_sent: Some(1_000.0), ..ground() }).unwrap();
        assert_eq!(find(&lines, "rows read for each sent").value, Some(10.0));
    }
}
