//! A control group for one server: CPU quota, CPUs, memory, freezing, a slow disk; version 1 or 2, as the
//! machine has it.
//!
//! Groups are made at the top of each hierarchy that this process sees, under a name of the lab's own.
//! The server enters them before its program starts (see server), so that it counts its CPUs inside.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use spindoctor_collect::host::cgroup::parse_mountinfo;

use crate::cpu_choice::CpuChoice;
use crate::error::{Error, Result};

/// The period of every quota here, microseconds: the kernel's default.
const PERIOD_US: u64 = 100_000;

/// What a server's group limits.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Limits {
    /// CPUs of time in each period: 0.5 is half a CPU.
    pub quota_cpus: Option<f64>,
    /// Its weight where CPUs are scarce, against 1 of every other group.
    pub weight: Option<u32>,
    /// CPUs that it may use, as the kernel writes them: `0-1,4`.
    pub cpuset: Option<String>,
    /// Memory that it may use, page cache included.
    pub memory_bytes: Option<u64>,
    /// True where the group must be able to freeze the server.
    pub freezer: bool,
    /// True where the group must be able to slow the server's writes, or reads, down.
    pub writes: bool,
}

/// The groups of one server: one folder with version 2, one for each controller with version 1.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Groups {
    folders: Vec<PathBuf>,
    freezer: Option<PathBuf>,
    writes: Option<PathBuf>,
    /// Records of before 2026-11-25 have none.
    #[serde(default)]
    memory: Option<PathBuf>,
}

/// Where the controllers are: mount points by controller.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchies {
    v1: Vec<(String, PathBuf)>,
    v2: Option<PathBuf>,
}

impl Limits {
    fn controllers(&self) -> Vec<&'static str> {
        [
            (self.quota_cpus.is_some() || self.weight.is_some(), "cpu"),
            (self.cpuset.is_some(), "cpuset"),
            (self.memory_bytes.is_some(), "memory"),
            (self.freezer, "freezer"),
            (self.writes, "io"),
        ]
        .into_iter()
        .filter_map(|(wanted, name)| wanted.then_some(name))
        .collect()
    }
}

impl Groups {
    /// The folders that [`Groups::create`] will make, so that they can be recorded before.
    pub(crate) fn plan(name: &str, limits: &Limits) -> Result<Self> {
        let path = Path::new("/proc/self/mountinfo");
        let mounts = fs::read_to_string(path).map_err(Error::file("read", path))?;
        Hierarchies::parse(&mounts).plan(name, limits)
    }

    /// Makes the groups and sets their limits.
    pub(crate) fn create(&self, limits: &Limits) -> Result<()> {
        for folder in &self.folders {
            if is_v2(folder) {
                create_v2(folder, limits)?;
            } else {
                create_v1(folder, limits)?;
            }
        }
        Ok(())
    }

    /// The files that a process enters the groups by, writing its id.
    pub(crate) fn doors(&self) -> impl Iterator<Item = PathBuf> {
        self.folders.iter().map(|folder| folder.join("cgroup.procs"))
    }

    /// The first group's folder, for those who read its counters.
    pub(crate) fn first(&self) -> Option<&Path> {
        self.folders.first().map(PathBuf::as_path)
    }

    /// Stops every process of the group where it is, or lets it go on.
    pub(crate) fn freeze(&self, frozen: bool) -> Result<()> {
        let Some(folder) = &self.freezer else {
            return Err(Error::Unable {
                what: "a freeze",
                because: "the server has no freezer group".into(),
            });
        };
        if is_v2(folder) {
            write(&folder.join("cgroup.freeze"), if frozen { "1" } else { "0" })
        } else {
            write(&folder.join("freezer.state"), if frozen { "FROZEN" } else { "THAWED" })
        }
    }

    /// Lets the group write this often, and so many bytes, per second to the disk that holds a folder; None for no limit.
    pub(crate) fn limit_writes(
        &self,
        folder: &Path,
        per_second: Option<u32>,
        bytes_per_second: Option<u32>,
    ) -> Result<()> {
        let Some(group) = &self.writes else {
            return Err(Error::Unable {
                what: "a slow disk",
                because: "the server has no group for it".into(),
            });
        };
        let disk = disk_of(folder, Path::new("/sys"))?;
        if is_v2(group) {
            let [iops, bps] = [per_second, bytes_per_second]
                .map(|limit| limit.map_or("max".into(), |limit| limit.to_string()));
            write(&group.join("io.max"), &format!("{disk} wiops={iops} wbps={bps}"))
        } else {
            let set = |file: &str, limit: Option<u32>| {
                write(&group.join(file), &format!("{disk} {}", limit.unwrap_or(0)))
            };
            set("blkio.throttle.write_iops_device", per_second)?;
            set("blkio.throttle.write_bps_device", bytes_per_second)
        }
    }

    /// Lets the group read this often per second from the disk that holds a folder; None for no limit.
    pub(crate) fn limit_reads(&self, folder: &Path, per_second: Option<u32>) -> Result<()> {
        let Some(group) = &self.writes else {
            return Err(Error::Unable {
                what: "a slow disk",
                because: "the server has no group for it".into(),
            });
        };
        let disk = disk_of(folder, Path::new("/sys"))?;
        if is_v2(group) {
            let iops = per_second.map_or("max".into(), |limit| limit.to_string());
            write(&group.join("io.max"), &format!("{disk} riops={iops}"))
        } else {
            let limit = format!("{disk} {}", per_second.unwrap_or(0));
            write(&group.join("blkio.throttle.read_iops_device"), &limit)
        }
    }

    /// Lets the group use so much memory, page cache included; None for as much as there is. What it uses above that is
    /// dropped or swapped out before this returns.
    pub(crate) fn limit_memory(&self, bytes: Option<u64>) -> Result<()> {
        let Some(group) = &self.memory else {
            return Err(Error::Unable {
                what: "a limit of memory",
                because: "the server has no group for it".into(),
            });
        };
        let (file, none) = if is_v2(group) { ("memory.max", "max") } else { ("memory.limit_in_bytes", "-1") };
        write(&group.join(file), &bytes.map_or(none.to_owned(), |bytes| bytes.to_string()))
    }

    /// Lets the group use so much CPU time, CPUs; None for as much as there is.
    pub(crate) fn limit_quota(&self, cpus: Option<f64>) -> Result<()> {
        let quota = |none: &str| cpus.map_or(none.to_owned(), |cpus| quota_us(cpus).to_string());
        let mut is_set = false;
        for folder in &self.folders {
            if folder.join("cpu.max").exists() {
                write(&folder.join("cpu.max"), &format!("{} {PERIOD_US}", quota("max")))?;
                is_set = true;
            } else if folder.join("cpu.cfs_quota_us").exists() {
                write(&folder.join("cpu.cfs_quota_us"), &quota("-1"))?;
                is_set = true;
            }
        }
        is_set.then_some(()).ok_or_else(|| Error::Unable {
            what: "a CPU quota",
            because: "the server has no group for it".into(),
        })
    }

    /// Lets the group use these CPUs, and memory of these nodes; what it has on others is moved there.
    pub(crate) fn limit_cpus(&self, choice: &CpuChoice) -> Result<()> {
        let folder = self.folders.iter().find(|folder| folder.join("cpuset.cpus").exists());
        let Some(folder) = folder else {
            return Err(Error::Unable {
                what: "a set of CPUs",
                because: "the server has no group for it".into(),
            });
        };
        let nodes = match &choice.nodes {
            Some(nodes) => nodes.clone(),
            // Version 2 takes nothing for all; it moves memory by itself.
            None if is_v2(folder) => String::new(),
            None => {
                let above = folder.with_file_name("cpuset.mems");
                fs::read_to_string(&above).map_err(Error::file("read", &above))?.trim().to_owned()
            }
        };
        if folder.join("cpuset.memory_migrate").exists() {
            write(&folder.join("cpuset.memory_migrate"), "1")?;
        }
        write(&folder.join("cpuset.cpus"), &choice.cpus)?;
        write(&folder.join("cpuset.mems"), &format!("{nodes}\n"))
    }

    /// Removes the groups; their processes must be gone or going.
    pub(crate) fn remove(&self) -> Result<()> {
        let start = Instant::now();
        for folder in &self.folders {
            loop {
                match fs::remove_dir(folder) {
                    Ok(()) => break,
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => break,
                    // The kernel frees a group a little after its last process.
                    Err(_) if start.elapsed() < Duration::from_secs(5) => {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    Err(error) => return Err(Error::file("remove", folder)(error)),
                }
            }
        }
        Ok(())
    }
}

impl Hierarchies {
    fn parse(mountinfo: &str) -> Self {
        let mut found = Self { v1: Vec::new(), v2: None };
        for mount in parse_mountinfo(mountinfo) {
            match mount.controllers {
                None => found.v2 = Some(mount.point.into()),
                Some(options) => {
                    found.v1.extend(options.into_iter().map(|option| (option, PathBuf::from(&mount.point))));
                }
            }
        }
        found
    }

    fn plan(&self, name: &str, limits: &Limits) -> Result<Groups> {
        let mut groups = Groups::default();
        for controller in limits.controllers() {
            // Version 1 calls it blkio, version 2 io.
            let in_v1 = if controller == "io" { "blkio" } else { controller };
            let v1 = self.v1.iter().find(|(option, _)| option == in_v1).map(|(_, at)| at.join(name));
            let folder = match (v1, &self.v2) {
                (Some(folder), _) => folder,
                (None, Some(at)) => at.join(name),
                (None, None) => {
                    return Err(Error::Unable {
                        what: "a limit",
                        because: format!("no cgroup hierarchy with the controller {controller} is mounted"),
                    });
                }
            };
            match controller {
                "freezer" => groups.freezer = Some(folder.clone()),
                "io" => groups.writes = Some(folder.clone()),
                "memory" => groups.memory = Some(folder.clone()),
                _ => {}
            }
            if !groups.folders.contains(&folder) {
                groups.folders.push(folder);
            }
        }
        Ok(groups)
    }
}

fn is_v2(folder: &Path) -> bool {
    folder.parent().is_some_and(|parent| parent.join("cgroup.controllers").exists())
}

fn create_v1(folder: &Path, limits: &Limits) -> Result<()> {
    create(folder)?;
    let has = |file: &str| folder.join(file).exists();
    if let (Some(quota), true) = (limits.quota_cpus, has("cpu.cfs_quota_us")) {
        write(&folder.join("cpu.cfs_period_us"), &PERIOD_US.to_string())?;
        write(&folder.join("cpu.cfs_quota_us"), &quota_us(quota).to_string())?;
    }
    if let (Some(weight), true) = (limits.weight, has("cpu.shares")) {
        // 1024 is the kernel's default.
        write(&folder.join("cpu.shares"), &(1024 * weight).to_string())?;
    }
    if let (Some(cpus), true) = (&limits.cpuset, has("cpuset.cpus")) {
        write(&folder.join("cpuset.cpus"), cpus)?;
        let above = folder.with_file_name("cpuset.mems");
        let nodes = fs::read_to_string(&above).map_err(Error::file("read", &above))?;
        write(&folder.join("cpuset.mems"), nodes.trim())?;
    }
    if let (Some(bytes), true) = (limits.memory_bytes, has("memory.limit_in_bytes")) {
        write(&folder.join("memory.limit_in_bytes"), &bytes.to_string())?;
    }
    Ok(())
}

fn create_v2(folder: &Path, limits: &Limits) -> Result<()> {
    for controller in limits.controllers().into_iter().filter(|controller| *controller != "freezer") {
        write(&folder.with_file_name("cgroup.subtree_control"), &format!("+{controller}"))?;
    }
    create(folder)?;
    if let Some(quota) = limits.quota_cpus {
        write(&folder.join("cpu.max"), &format!("{} {PERIOD_US}", quota_us(quota)))?;
    }
    if let Some(weight) = limits.weight {
        // 100 is the kernel's default.
        write(&folder.join("cpu.weight"), &(100 * weight).to_string())?;
    }
    if let Some(cpus) = &limits.cpuset {
        write(&folder.join("cpuset.cpus"), cpus)?;
    }
    if let Some(bytes) = limits.memory_bytes {
        write(&folder.join("memory.max"), &bytes.to_string())?;
    }
    Ok(())
}

/// The whole disk that holds a folder, as `major:minor`: limits cannot be set on its partitions.
fn disk_of(folder: &Path, sys: &Path) -> Result<String> {
    use std::os::unix::fs::MetadataExt;
    let device = fs::metadata(folder).map_err(Error::file("look at", folder))?.dev();
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let block = sys.join("dev/block").join(&device);
    let block = block.canonicalize().map_err(|_| Error::Unable {
        what: "a slow disk",
        because: format!("{} is on no disk of its own (device {device})", folder.display()),
    })?;
    if !block.join("partition").exists() {
        return Ok(device);
    }
    let path = block.with_file_name("dev");
    Ok(fs::read_to_string(&path).map_err(Error::file("read", &path))?.trim().to_owned())
}

fn quota_us(quota: f64) -> u64 {
    // The kernel refuses less than a millisecond.
    ((quota * PERIOD_US as f64).round() as u64).max(1_000)
}

fn create(folder: &Path) -> Result<()> {
    fs::create_dir(folder).map_err(|error| refused(folder, &error))
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(|error| refused(file, &error))
}

fn refused(path: &Path, error: &std::io::Error) -> Error {
    Error::Unable {
        what: "a limit of a control group",
        because: format!("the kernel refuses {}: {error}; control groups need root", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
30 24 0:26 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:10 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";

    #[test]
    fn a_controller_is_looked_for_in_version_1_first_because_it_can_be_in_one_place_only() {
        let limits = Limits { quota_cpus: Some(0.5), freezer: true, ..Limits::default() };
        let groups = Hierarchies::parse(V1).plan("lab", &limits).unwrap();
        assert_eq!(
            groups.folders,
            [Path::new("/sys/fs/cgroup/cpu,cpuacct/lab"), Path::new("/sys/fs/cgroup/freezer/lab")]
        );
        assert_eq!(groups.freezer.as_deref(), Some(Path::new("/sys/fs/cgroup/freezer/lab")));
    }

    #[test]
    fn version_2_has_one_group_for_all() {
        let limits = Limits {
            quota_cpus: Some(0.5),
            weight: None,
            cpuset: Some("0".into()),
            memory_bytes: Some(1 << 30),
            freezer: true,
            writes: true,
        };
        let mounts = "29 23 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate";
        let groups = Hierarchies::parse(mounts).plan("lab", &limits).unwrap();
        assert_eq!(groups.folders, [Path::new("/sys/fs/cgroup/lab")]);
        assert_eq!(
            (groups.freezer.as_deref(), groups.writes.as_deref()),
            (groups.folders.first().map(PathBuf::as_path), groups.folders.first().map(PathBuf::as_path))
        );
    }

    #[test]
    fn version_2_limits_go_into_the_files_that_the_kernel_names() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.controllers"), "cpu cpuset").unwrap();
        let group = folder.path().join("lab");
        let groups = Groups { folders: vec![group.clone()], ..Groups::default() };
        let limits = Limits {
            quota_cpus: Some(1.5),
            weight: Some(10),
            cpuset: Some("0".into()),
            memory_bytes: Some(4096),
            ..Limits::default()
        };
        groups.create(&limits).unwrap();
        assert_eq!(fs::read_to_string(group.join("memory.max")).unwrap(), "4096");
        assert_eq!(fs::read_to_string(group.join("cpu.max")).unwrap(), "150000 100000");
        assert_eq!(fs::read_to_string(group.join("cpu.weight")).unwrap(), "1000");
        assert_eq!(fs::read_to_string(group.join("cpuset.cpus")).unwrap(), "0");
    }

    #[test]
    fn limits_change_while_the_group_is_there_and_not_where_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("cgroup.controllers"), "cpu cpuset").unwrap();
        let group = folder.path().join("lab");
        let groups = Groups { folders: vec![group.clone()], ..Groups::default() };
        let choice = CpuChoice { cpus: "0-1".to_owned(), nodes: Some("0".to_owned()) };
        fs::create_dir(&group).unwrap();
        assert!(groups.limit_quota(Some(1.0)).unwrap_err().to_string().contains("no group for it"));
        assert!(groups.limit_cpus(&choice).unwrap_err().to_string().contains("no group for it"));
        for file in ["cpu.max", "cpuset.cpus", "cpuset.mems"] {
            fs::write(group.join(file), "").unwrap();
        }
        let read = |file: &str| fs::read_to_string(group.join(file)).unwrap();
        groups.limit_quota(Some(0.5)).unwrap();
        assert_eq!(read("cpu.max"), "50000 100000");
        groups.limit_quota(None).unwrap();
        assert_eq!(read("cpu.max"), "max 100000");
        groups.limit_cpus(&choice).unwrap();
        assert_eq!((read("cpuset.cpus"), read("cpuset.mems")), ("0-1".to_owned(), "0\n".to_owned()));
        groups.limit_cpus(&CpuChoice { nodes: None, ..choice }).unwrap();
        assert_eq!(read("cpuset.mems"), "\n");
    }

    #[test]
    fn without_any_hierarchy_a_quota_is_refused_with_the_reason() {
        let none = Hierarchies::parse("");
        let error = none.plan("lab", &Limits { quota_cpus: Some(1.0), ..Limits::default() }).unwrap_err();
        assert!(error.to_string().contains("controller cpu"), "{error}");
    }
}
