//! The table `hosts` of a dated folder, read back: what recorders wrote down of the hosts of a fleet.
//!
//! The newest file of each server counts, and of it the last row. Files that others write into the folder are read as any
//! engine would: a file that is no Parquet, or is larger than any of ours, is left out and named.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::{Field, Row};
use spindoctor_model::host::{CpuModel, PauseLatency};

/// A row is some 100 bytes, and a file has one for each start of the server in its five minutes to a day.
const MOST_BYTES: u64 = 1 << 20;
/// The table, and so the folder's name.
const TABLE: &str = "hosts";

/// The hosts of a folder.
#[derive(Debug, Default)]
pub struct RecordedHosts {
    /// By the server's name, as its recorder wrote it: its host name, or what `--name` says.
    pub by_server: BTreeMap<String, RecordedHost>,
    /// Files that could not be read, each with the reason.
    pub unread: Vec<String>,
}

/// What a recorder wrote down of one host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordedHost {
    /// Its CPU.
    pub cpu: Option<CpuModel>,
    /// The length of its PAUSE.
    pub pause: Option<PauseLatency>,
    /// CPUs that the server is granted.
    pub granted_cpus: Option<f64>,
}

/// Reads them.
///
/// # Errors
/// There is no such folder, or it has no table `hosts`.
pub fn recorded_hosts(folder: &Path) -> anyhow::Result<RecordedHosts> {
    let table = folder.join(TABLE);
    if !table.is_dir() {
        bail!("there is no folder {TABLE} in it: record --parquet writes one, of spindoctor 0.1 and later");
    }
    let mut hosts = RecordedHosts::default();
    let mut newest: BTreeMap<String, PathBuf> = BTreeMap::new();
    // The names of days sort as the days do, and those of files as their times.
    for date in sorted(&table)? {
        for server in sorted(&date)? {
            let name = server.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let files = sorted(&server)?;
            if let Some(last) =
                files.into_iter().rfind(|file| file.extension().is_some_and(|e| e == "parquet"))
            {
                newest.insert(name, last);
            }
        }
    }
    for file in newest.into_values() {
        match last_row(&file) {
            Ok(Some((server, host))) => {
                hosts.by_server.insert(server, host);
            }
            Ok(None) => {}
            Err(error) => hosts.unread.push(format!("{}: {error:#}", file.display())),
        }
    }
    Ok(hosts)
}

/// What is in a folder, by name; nothing where it is none.
fn sorted(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).with_context(|| format!("could not read {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// The last row of a file, with the server that it is of.
fn last_row(path: &Path) -> anyhow::Result<Option<(String, RecordedHost)>> {
    let about = fs::metadata(path)?;
    if !about.is_file() || about.len() > MOST_BYTES {
        bail!("it is not a file of a recorder's");
    }
    let reader = SerializedFileReader::new(File::open(path)?)?;
    let mut last = None;
    for row in reader.get_row_iter(None)? {
        last = Some(row?);
    }
    Ok(last.and_then(|row| host(&row)))
}

fn host(row: &Row) -> Option<(String, RecordedHost)> {
    let cells: BTreeMap<&str, &Field> =
        row.get_column_iter().map(|(name, field)| (name.as_str(), field)).collect();
    let text = |name: &str| match cells.get(name) {
        Some(Field::Str(text)) => Some(text.clone()),
        _ => None,
    };
    let real = |name: &str| match cells.get(name) {
        Some(Field::Double(number)) if number.is_finite() && *number > 0.0 => Some(*number),
        _ => None,
    };
    let integer = |name: &str| match cells.get(name) {
        Some(Field::Long(number)) => u32::try_from(*number).ok(),
        _ => None,
    };
    let cpu = text("cpu").map(|name| CpuModel {
        name,
        vendor: text("vendor").unwrap_or_default(),
        microarchitecture: text("microarchitecture"),
        family_model: integer("family").zip(integer("model")),
        virtualised: matches!(cells.get("is_virtual"), Some(Field::Bool(true))),
    });
    let pause = real("pause_ns").map(|ns| PauseLatency {
        instruction: text("instruction").unwrap_or_default(),
        ns,
        core_cycles: real("pause_cycles"),
        tsc_ticks: real("pause_tsc_ticks"),
        ..PauseLatency::default()
    });
    Some((text("server")?, RecordedHost { cpu, pause, granted_cpus: real("granted_cpus") }))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use spindoctor_model::host::EffectiveCpus;
    use spindoctor_model::{Reading, RecordedSample, Sample, Segment, ServerIdentity};

    use super::*;

    use crate::parquet::Parquet;
    use crate::table::{Rows, Sink as _, Whose, by_name};

    fn sample(pause_ns: f64) -> RecordedSample {
        fn read<T>(value: T) -> Reading<T> {
            Reading::Available { at_s: 0.0, took_ms: 0.1, value }
        }
        let mut sample = Sample::default();
        sample.host.pause = read(PauseLatency {
            instruction: "pause".to_owned(),
            ns: pause_ns,
            core_cycles: Some(140.0),
            tsc_ticks: Some(139.0),
            ..PauseLatency::default()
        });
        sample.host.cpu = read(CpuModel {
            name: "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz".to_owned(),
            vendor: "GenuineIntel".to_owned(),
            microarchitecture: Some("Skylake".to_owned()),
            family_model: Some((6, 85)),
            virtualised: true,
        });
        sample.host.effective_cpus =
            read(EffectiveCpus { cpus: 4.0, online: 16, ..EffectiveCpus::default() });
        RecordedSample { at: Timestamp::UNIX_EPOCH, segment: 1, sample }
    }

    fn write(folder: &Path, date: &str, server: &str, samples: &[RecordedSample]) {
        let folder = folder.join(format!("hosts/date={date}/server={server}"));
        fs::create_dir_all(&folder).unwrap();
        let identity = ServerIdentity { hostname: server.to_owned(), ..ServerIdentity::default() };
        let segments = [Segment { id: 1, server: identity, ..Segment::default() }];
        let table = by_name("hosts").unwrap();
        let Rows::Samples(rows) = table.rows else { panic!("a row for a sample") };
        let file = File::create(folder.join("09-30-00.000-5d2f9a31.parquet")).unwrap();
        let mut sink = Box::new(Parquet::begin(file, table).unwrap());
        for sample in samples {
            rows(&Whose::from_segments(&segments), sample, &mut |cells| sink.row(cells)).unwrap();
        }
        sink.finish().unwrap();
    }

    #[test]
    fn the_last_row_of_each_servers_newest_file_comes_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "2026-11-21", "db17", &[sample(10.9)]);
        write(folder.path(), "2026-11-22", "db17", &[sample(60.0), sample(66.0)]);
        write(folder.path(), "2026-11-21", "db18", &[sample(10.9)]);
        let hosts = recorded_hosts(folder.path()).unwrap();
        assert_eq!(hosts.unread, [] as [&str; 0]);
        let db17 = &hosts.by_server["db17"];
        let written = sample(66.0).sample.host;
        assert_eq!((db17.cpu.as_ref(), db17.pause.as_ref()), (written.cpu.value(), written.pause.value()));
        assert_eq!(db17.granted_cpus, Some(4.0));
        assert_eq!(hosts.by_server["db18"].pause.as_ref().map(|pause| pause.ns), Some(10.9));
    }

    #[test]
    fn a_file_that_is_no_parquet_is_named_and_the_others_are_read() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "2026-11-21", "db17", &[sample(10.9)]);
        let broken = folder.path().join("hosts/date=2026-11-21/server=db18");
        fs::create_dir_all(&broken).unwrap();
        fs::write(broken.join("09.parquet"), "PAR1 and no more").unwrap();
        fs::write(broken.join("notes.txt"), "not ours").unwrap();
        fs::write(folder.path().join("hosts/readme"), "not ours").unwrap();
        let hosts = recorded_hosts(folder.path()).unwrap();
        assert_eq!(hosts.by_server.len(), 1);
        assert!(hosts.unread.len() == 1 && hosts.unread[0].contains("server=db18"), "{:?}", hosts.unread);
        assert!(recorded_hosts(&folder.path().join("hosts")).is_err());
    }
}
