//! Where a process is in the cgroup hierarchies: v1, v2 and both at once (hybrid).
//!
//! In: `/proc/PID/cgroup` (which group) and `mountinfo` (where the hierarchies are mounted). Out:
//! the folders from the process's own group up to the topmost one that can be seen, because limits
//! hold along the whole path.
//!
//! Both files speak from the reader's cgroup namespace. A path therefore is `/` in a container
//! that looks at itself, and begins with `/..` for a process outside the reader's namespace; and
//! a mount may show only a part of the hierarchy, which its root names. Where the names do not
//! lead to a folder, the folder is found by the process id in its `cgroup.procs`.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use spindoctor_model::Unavailable;
use spindoctor_stacks::target_file::Root;

use super::kernel_file;
use super::source::Target;

/// Stands for the v2 hierarchy itself where a controller is asked for.
pub const UNIFIED: &str = "";

/// Folders that are searched for a process id before the search is given up. Hosts with more
/// groups exist; none needs the search, because their names do lead to the folder.
const MOST_SEARCHED: usize = 4_096;

/// A process's place in the hierarchy of one controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// The group, as `/proc/PID/cgroup` names it.
    pub name: String,
    /// Version of the hierarchy: 1 or 2.
    pub version: u8,
    /// The group and its ancestors, as far as they can be seen; never empty.
    pub levels: Vec<Level>,
}

/// One group on the path from a process to the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// Its name in the form of `/proc/PID/cgroup`.
    pub name: String,
    /// Where its files are.
    pub folder: PathBuf,
}

/// A line of `/proc/PID/cgroup`: `4:cpu,cpuacct:/docker/0123`, `0::/user.slice`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Controllers of a v1 hierarchy; empty for v2.
    pub controllers: Vec<String>,
    /// The group.
    pub path: String,
}

/// A cgroup file system of `mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// The group that the mount point shows.
    pub root: String,
    /// Where it is mounted.
    pub point: String,
    /// Controllers of a v1 hierarchy; None for v2.
    pub controllers: Option<Vec<String>>,
}

/// Finds the process's group in the hierarchy that `controller` is in, [`UNIFIED`] for v2 itself.
///
/// None where the kernel has no such hierarchy. Unavailable where there is one and the group
/// cannot be seen from here: limits that cannot be seen are not the same as none.
pub fn find(target: &Target, controller: &str) -> Result<Option<Cgroup>, Unavailable> {
    let Some(text) = kernel_file::read_if_any(&target.process("cgroup"))? else {
        // A kernel without cgroups has no such file; a process that is gone has no folder.
        let folder = target.process("");
        return folder.is_dir().then_some(None).ok_or_else(|| {
            Unavailable::because(format!("there is no {}: the process has ended", folder.display()))
        });
    };
    let memberships = parse_cgroup(&text);
    let in_v1 = memberships.iter().find(|of| of.controllers.iter().any(|name| name == controller));
    let in_v2 = || memberships.iter().find(|of| of.controllers.is_empty());
    let Some(membership) = in_v1.or_else(in_v2) else { return Ok(None) };

    let mounts = mounts(target, membership);
    if mounts.is_empty() {
        return Err(Unavailable::because("no cgroup file system is mounted here")
            .unlock("mount the host's /sys/fs/cgroup, or run spindoctor on the host"));
    }
    let levels = by_name(&mounts, &membership.path)
        .or_else(|| mounts.iter().find_map(|(root, point)| by_pid(point, root, target.pid)))
        .or_else(|| own_group_only(&mounts, &membership.path))
        .ok_or_else(|| {
            Unavailable::because(format!("the server's cgroup {} cannot be seen from here", membership.path))
                .unlock("run spindoctor on the host, or in the server's own container")
        })?;
    let version = if membership.controllers.is_empty() { 2 } else { 1 };
    Ok(Some(Cgroup { name: membership.path.clone(), version, levels }))
}

/// Roots and mount points of the hierarchy: as spindoctor sees them; else as the server does, which
/// is the way in when spindoctor's own container has none; else where they are by custom.
fn mounts(target: &Target, membership: &Membership) -> Vec<(String, PathBuf)> {
    let of_hierarchy = |mount: &Mount| match &mount.controllers {
        Some(controllers) => {
            !membership.controllers.is_empty()
                && membership.controllers.iter().all(|name| controllers.contains(name))
        }
        None => membership.controllers.is_empty(),
    };
    let there = |mounts: &[Mount], place: &dyn Fn(&str) -> PathBuf| -> Vec<(String, PathBuf)> {
        let mounts = mounts.iter().filter(|mount| of_hierarchy(mount));
        let placed = mounts.map(|mount| (mount.root.clone(), place(&mount.point)));
        placed.filter(|(_, folder)| folder.is_dir()).collect()
    };
    let ours = there(&target.own_mounts(), &|point| match point.strip_prefix("/sys/") {
        Some(below) => target.sys.join(below),
        None => point.into(),
    });
    if !ours.is_empty() {
        return ours;
    }
    let text = kernel_file::read(&target.process("mountinfo")).unwrap_or_default();
    let root = target.process("root");
    // The server names these folders: each must be what it is said to be.
    let seen: Vec<Mount> = parse_mountinfo(&text)
        .into_iter()
        .filter(|mount| is_cgroup_file_system(target, &root, mount))
        .collect();
    let servers = there(&seen, &|point| root.join(point.trim_start_matches('/')));
    if !servers.is_empty() {
        return servers;
    }
    let tree = target.sys.join("fs/cgroup");
    let customary = if membership.controllers.is_empty() {
        vec![tree.join("unified"), tree]
    } else {
        let joined = membership.controllers.join(",");
        std::iter::once(&joined).chain(&membership.controllers).map(|name| tree.join(name)).collect()
    };
    customary.into_iter().filter(|point| point.is_dir()).map(|point| ("/".to_owned(), point)).collect()
}

/// True where a mount that the server's mountinfo names is a cgroup file system, below the server's root, and the path
/// to it has no symbolic link: an account that may mount in the server's namespace could put anything there.
fn is_cgroup_file_system(target: &Target, root: &Path, mount: &Mount) -> bool {
    /// `CGROUP_SUPER_MAGIC`, `CGROUP2_SUPER_MAGIC` (include/uapi/linux/magic.h).
    const MAGIC: [u64; 2] = [0x0027_e0eb, 0x6367_7270];
    let Ok(found) = Root::at(root).and_then(|root| root.find(Path::new(&mount.point))) else { return false };
    let plain = rustix::fs::stat(root.join(mount.point.trim_start_matches('/')));
    let is_same = match (rustix::fs::fstat(&found), plain) {
        (Ok(found), Ok(plain)) => (found.st_dev, found.st_ino) == (plain.st_dev, plain.st_ino),
        _ => false,
    };
    let kind = rustix::fs::fstatfs(&found).map_or(0, |ground| ground.f_type as u64 & 0xffff_ffff);
    // A folder of a test stands for /proc.
    is_same && (MAGIC.contains(&kind) || target.proc != Path::new("/proc"))
}

/// The mount whose root is on the path, and the folders below it.
fn by_name(mounts: &[(String, PathBuf)], path: &str) -> Option<Vec<Level>> {
    mounts.iter().find_map(|(root, point)| {
        let below = Path::new(path).strip_prefix(root).ok()?;
        let reachable = !below.components().any(|part| part.as_os_str() == "..");
        let folder = point.join(below);
        (reachable && folder.is_dir()).then(|| levels(point, root, &folder))
    })
}

/// The folder whose `cgroup.procs` names the process, and those above it.
fn by_pid(point: &Path, root: &str, pid: u32) -> Option<Vec<Level>> {
    let mut folders = VecDeque::from([point.to_path_buf()]);
    for _ in 0..MOST_SEARCHED {
        let folder = folders.pop_front()?;
        let pids = kernel_file::read(&folder.join("cgroup.procs")).unwrap_or_default();
        if pids.lines().any(|line| line.trim().parse() == Ok(pid)) {
            return Some(levels(point, root, &folder));
        }
        let below = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        folders.extend(
            below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|dir| dir.path()),
        );
    }
    None
}

/// A container that is shown its own group as if it were the root, though `/proc/PID/cgroup` names
/// the group by the host's path: a bind mount without a cgroup namespace, as old LXC makes it.
fn own_group_only(mounts: &[(String, PathBuf)], path: &str) -> Option<Vec<Level>> {
    // Only the true root of a v1 hierarchy has `release_agent`; only the true root of v2 has no
    // `cgroup.events` (Linux, kernel/cgroup/cgroup-v1.c and cgroup.c: CFTYPE_ONLY_ON_ROOT, NOT_ON_ROOT).
    let true_root = |point: &Path| {
        point.join("release_agent").exists()
            || (point.join("cgroup.controllers").exists() && !point.join("cgroup.events").exists())
    };
    let outside = path.split('/').any(|part| part == "..");
    let (_, point) = mounts.iter().find(|(_, point)| !outside && !true_root(point))?;
    Some(vec![Level { name: path.to_owned(), folder: point.clone() }])
}

/// The folder and those above it, up to the mount point.
fn levels(point: &Path, root: &str, folder: &Path) -> Vec<Level> {
    folder
        .ancestors()
        .take_while(|folder| folder.starts_with(point))
        .map(|folder| {
            // The path's own parts only: joining an empty one would leave a slash at the end.
            let below = folder.strip_prefix(point).into_iter().flat_map(Path::components);
            let name = Path::new(root).components().chain(below).collect::<PathBuf>();
            let name = name.to_string_lossy().into_owned();
            Level { name, folder: folder.to_path_buf() }
        })
        .collect()
}

/// Reads `/proc/PID/cgroup`; lines in no known form are left out.
pub fn parse_cgroup(text: &str) -> Vec<Membership> {
    text.lines()
        .filter_map(|line| {
            let (_hierarchy, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            // A group that was removed while a process is still in it is marked so.
            let path = path.strip_suffix(" (deleted)").unwrap_or(path);
            path.starts_with('/')
                .then(|| Membership { controllers: words(controllers), path: path.to_owned() })
        })
        .collect()
}

/// Reads the cgroup file systems out of `/proc/PID/mountinfo`.
///
/// `32 31 0:29 /docker/0123 /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu`: root
/// and mount point are fields 4 and 5, then come optional fields up to a lone `-`.
pub fn parse_mountinfo(text: &str) -> Vec<Mount> {
    text.lines()
        .filter_map(|line| {
            let (mount, file_system) = line.split_once(" - ")?;
            let mut mount = mount.split_ascii_whitespace().skip(3);
            let (root, point) = (unescape(mount.next()?), unescape(mount.next()?));
            let mut file_system = file_system.split_ascii_whitespace();
            let controllers = match file_system.next()? {
                "cgroup2" => None,
                "cgroup" => Some(words(file_system.nth(1)?)),
                _ => return None,
            };
            Some(Mount { root, point, controllers })
        })
        .collect()
}

fn words(list: &str) -> Vec<String> {
    list.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Undoes the kernel's `\040` for space, tab, newline and backslash.
fn unescape(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .into_iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{never_panics, part, process, put, target, tree};
    use super::*;

    fn names(cgroup: &Cgroup) -> Vec<&str> {
        cgroup.levels.iter().map(|level| level.name.as_str()).collect()
    }

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn a_v2_path_is_walked_from_the_leaf_to_the_root() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "0::/system.slice/mysql.service\n");
        put(root.path(), "proc/self/mountinfo", V2);
        put(root.path(), "sys/fs/cgroup/system.slice/mysql.service/cpu.max", "max 100000\n");
        let found = find(&target(root.path()), "cpu").unwrap().unwrap();
        assert_eq!(found.version, 2);
        assert_eq!(names(&found), ["/system.slice/mysql.service", "/system.slice", "/"]);
        assert_eq!(found.levels[2].folder, root.path().join("sys/fs/cgroup"));
    }

    #[test]
    fn in_a_hybrid_tree_a_controller_is_where_it_is_mounted() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "4:memory:/\n1:cpu,cpuacct:/db\n0::/unit\n");
        put(
            root.path(),
            "proc/self/mountinfo",
            "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        );
        put(root.path(), "sys/fs/cgroup/cpu,cpuacct/db/cpu.cfs_quota_us", "-1\n");
        put(root.path(), "sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n");
        put(root.path(), "sys/fs/cgroup/unified/unit/cgroup.events", "frozen 0\n");
        let target = target(root.path());
        let of = |controller| find(&target, controller).unwrap().unwrap();
        assert_eq!((of("cpu").version, names(&of("cpu"))), (1, vec!["/db", "/"]));
        assert_eq!((of("memory").version, names(&of("memory"))), (1, vec!["/"]));
        assert_eq!((of(UNIFIED).version, names(&of(UNIFIED))), (2, vec!["/unit", "/"]));
        // Not listed in v1: v2 would have it.
        assert_eq!(of("cpuset").version, 2);
    }

    #[test]
    fn a_mount_that_shows_only_the_container_is_followed_from_its_root() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "2:cpu,cpuacct:/docker/0123/inner\n");
        put(
            root.path(),
            "proc/self/mountinfo",
            "1 2 0:29 /docker/0123 /sys/fs/cgroup/cpu,cpuacct ro master:16 - cgroup cgroup rw,cpu,cpuacct\n",
        );
        put(root.path(), "sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "-1\n");
        let found = find(&target(root.path()), "cpu").unwrap().unwrap();
        assert_eq!(names(&found), ["/docker/0123/inner", "/docker/0123"]);
        assert_eq!(found.levels[1].folder, root.path().join("sys/fs/cgroup/cpu,cpuacct"));
    }

    #[test]
    fn a_container_that_looks_at_itself_sees_its_group_as_the_root() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", &part("written/host-cgroup-v2", "proc/9/cgroup"));
        put(root.path(), "proc/self/mountinfo", V2);
        put(root.path(), "sys/fs/cgroup/cpu.max", "200000 100000\n");
        let found = find(&target(root.path()), "cpu").unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.levels.len()), ("/", 1));
    }

    #[test]
    fn a_new_namespace_over_old_mounts_is_found_by_the_process_id() {
        // `unshare --cgroup` without new mounts: the mount's root lies above the namespace's.
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "0::/\n");
        put(root.path(), "proc/self/mountinfo", &V2.replace(" / /sys", " /../.. /sys"));
        put(root.path(), "sys/fs/cgroup/cgroup.procs", "1\n");
        put(root.path(), "sys/fs/cgroup/other/cgroup.procs", "77\n");
        put(root.path(), "sys/fs/cgroup/a/b/cgroup.procs", "6\n7\n");
        let found = find(&target(root.path()), "cpu").unwrap().unwrap();
        let folders: Vec<_> = found.levels.iter().map(|level| level.folder.clone()).collect();
        let tree = root.path().join("sys/fs/cgroup");
        assert_eq!(folders, [tree.join("a/b"), tree.join("a"), tree]);
    }

    #[test]
    fn a_sibling_under_a_mount_from_above_the_namespace_is_found_by_name() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "0::/../db\n");
        put(root.path(), "proc/self/mountinfo", &V2.replace(" / /sys", " /.. /sys"));
        put(root.path(), "sys/fs/cgroup/db/cpu.max", "max 100000\n");
        let found = find(&target(root.path()), "cpu").unwrap().unwrap();
        assert_eq!(names(&found), ["/../db", "/.."]);
    }

    #[test]
    fn a_server_outside_the_namespace_is_unavailable_and_not_unlimited() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "0::/../other-container\n");
        put(root.path(), "proc/self/mountinfo", V2);
        put(root.path(), "sys/fs/cgroup/cpu.max", "200000 100000\n");
        let unavailable = find(&target(root.path()), "cpu").unwrap_err();
        assert!(unavailable.because.contains("/../other-container"));
        assert!(unavailable.unlock.is_some());
    }

    #[test]
    fn without_mounts_of_our_own_the_servers_are_used() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "0::/pod/db\n");
        put(root.path(), "proc/self/mountinfo", "1 2 0:3 / / rw - overlay overlay rw\n");
        put(root.path(), "proc/7/mountinfo", &V2.replace(" / /sys", " /pod/db /sys"));
        put(root.path(), "proc/7/root/sys/fs/cgroup/cpu.max", "50000 100000\n");
        let found = find(&target(root.path()), "cpu").unwrap().unwrap();
        assert_eq!(names(&found), ["/pod/db"]);
        assert!(found.levels[0].folder.starts_with(root.path().join("proc/7/root")));
    }

    #[test]
    fn a_group_shown_as_the_root_by_a_bind_mount_is_taken_for_the_containers_own() {
        let root = tree("written/host-cgroup-v1-bind-mount");
        let found = find(&target(root.path()), "memory").unwrap().unwrap();
        assert_eq!(found.levels.len(), 1);
        assert!(found.levels[0].folder.join("memory.limit_in_bytes").is_file());
    }

    #[test]
    fn the_true_root_is_never_taken_for_a_containers_group() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "1:cpu:/gone\n");
        put(root.path(), "sys/fs/cgroup/cpu/release_agent", "\n");
        put(root.path(), "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
        assert!(find(&target(root.path()), "cpu").unwrap_err().because.contains("/gone"));
    }

    #[test]
    fn a_kernel_without_cgroups_has_none_and_a_process_that_is_gone_says_so() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/stat", "");
        assert_eq!(find(&target(root.path()), "cpu"), Ok(None));
        let gone = Target::under(8, root.path().join("proc"), root.path().join("sys"));
        assert!(find(&gone, "cpu").unwrap_err().because.contains("ended"));
    }

    #[test]
    fn spaces_in_a_mount_point_are_unescaped() {
        let mounts =
            parse_mountinfo("1 2 0:3 /a\\040b /mnt/c\\134d rw shared:1 master:2 - cgroup2 none rw\n");
        assert_eq!((mounts[0].root.as_str(), mounts[0].point.as_str()), ("/a b", "/mnt/c\\d"));
    }

    #[test]
    fn other_file_systems_are_no_cgroups() {
        let root = tree("written/host-processes");
        let text = std::fs::read_to_string(process(root.path(), 4100).process("mountinfo")).unwrap();
        assert_eq!(parse_mountinfo(&text), []);
    }

    #[test]
    fn this_process_is_in_its_cgroup() {
        let Some(cgroup) = find(&Target::live(std::process::id()), "cpu").unwrap() else {
            println!("skipped: this kernel has no cpu controller");
            return;
        };
        let pids = std::fs::read_to_string(cgroup.levels[0].folder.join("cgroup.procs")).unwrap();
        assert!(pids.lines().any(|pid| pid == std::process::id().to_string()), "{cgroup:?}");
    }

    #[test]
    fn no_text_makes_the_parsers_panic() {
        never_panics(parse_cgroup);
        never_panics(parse_mountinfo);
    }
}
