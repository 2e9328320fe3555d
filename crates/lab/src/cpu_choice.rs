//! CPUs that a server may use, as people write them: `0`, `0-3+8-11`, `node0`, `node0+node1`.
//!
//! In: the text. Out: the kernel's lists of CPUs and, where whole nodes were named, of the nodes that memory comes from. A
//! list of several choices is separated by commas, so that the parts of one are joined by `+`.

use std::fs;
use std::path::Path;

use spindoctor_collect::host::cpu_list::{CpuSet, parse_cpu_list};

use crate::error::{Error, Result};

/// CPUs, and the nodes that memory may come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuChoice {
    /// As the kernel writes them: `0-3,8-11`.
    pub cpus: String,
    /// The nodes, likewise; None for all.
    pub nodes: Option<String>,
}

impl CpuChoice {
    /// Reads what somebody wrote; the CPUs must be online.
    ///
    /// # Errors
    /// It is no list, or names a CPU or node that this machine does not have.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_in(text, Path::new("/sys/devices/system"))
    }

    fn parse_in(text: &str, system: &Path) -> Result<Self> {
        let refused = |because: String| Error::Unable { what: "this choice of CPUs", because };
        let list = |path: &Path| -> Option<CpuSet> { parse_cpu_list(&fs::read_to_string(path).ok()?) };
        let online = list(&system.join("cpu/online"))
            .ok_or_else(|| refused("the kernel does not list the CPUs that are online".to_owned()))?;
        let (mut cpus, mut nodes, mut has_bare) = (CpuSet::new(), Vec::new(), false);
        for part in text.split('+').map(str::trim) {
            match part.strip_prefix("node") {
                Some(number) => {
                    let number: u32 = number.parse().map_err(|_| refused(format!("{part:?} is no node")))?;
                    let of_node = list(&system.join(format!("node/node{number}/cpulist")))
                        .filter(|cpus| !cpus.is_empty())
                        .ok_or_else(|| refused(format!("this machine has no {part} with CPUs")))?;
                    cpus.extend(of_node.intersection(&online));
                    nodes.push(number.to_string());
                }
                None => {
                    let of_list = parse_cpu_list(part).filter(|cpus| !cpus.is_empty());
                    cpus.extend(of_list.ok_or_else(|| {
                        refused(format!("{part:?} is no list of CPUs; write 0, 0-3, 0-3+8-11 or node0"))
                    })?);
                    has_bare = true;
                }
            }
        }
        if let Some(missing) = cpus.difference(&online).next() {
            return Err(refused(format!("CPU {missing} is not online here")));
        }
        Ok(Self { cpus: as_list(&cpus), nodes: (!has_bare).then(|| nodes.join(",")) })
    }

    /// All CPUs of several choices.
    pub fn union(choices: &[Self]) -> String {
        let all: CpuSet =
            choices.iter().filter_map(|choice| parse_cpu_list(&choice.cpus)).flatten().collect();
        as_list(&all)
    }
}

/// `0-3,8`
fn as_list(cpus: &CpuSet) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let text = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two nodes of four CPUs, of which the last is offline.
    fn system() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("cpu/online", "0-6\n");
        write("node/node0/cpulist", "0-3\n");
        write("node/node1/cpulist", "4-7\n");
        folder
    }

    #[test]
    fn cpus_and_whole_nodes_are_chosen() {
        let system = system();
        let parsed = |text: &str| {
            let choice = CpuChoice::parse_in(text, system.path()).unwrap();
            (choice.cpus, choice.nodes)
        };
        assert_eq!(parsed("0"), ("0".to_owned(), None));
        assert_eq!(parsed("0-1+4"), ("0-1,4".to_owned(), None));
        assert_eq!(parsed("node1"), ("4-6".to_owned(), Some("1".to_owned())));
        assert_eq!(parsed("node0+node1"), ("0-6".to_owned(), Some("0,1".to_owned())));
        assert_eq!(parsed("node0+4"), ("0-4".to_owned(), None), "memory of all nodes");
    }

    #[test]
    fn what_the_machine_does_not_have_is_refused() {
        let system = system();
        for (text, why) in [
            ("7", "CPU 7 is not online"),
            ("node2", "no node2 with CPUs"),
            ("nodeX", "is no node"),
            ("", "is no list of CPUs"),
            ("0+", "is no list of CPUs"),
            ("3-1", "is no list of CPUs"),
        ] {
            let error = CpuChoice::parse_in(text, system.path()).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn several_choices_have_the_cpus_of_all() {
        let choice = |cpus: &str| CpuChoice { cpus: cpus.to_owned(), nodes: None };
        assert_eq!(CpuChoice::union(&[choice("0"), choice("0-1"), choice("5,6,7")]), "0-1,5-7");
    }
}
