//! `cpu.pressure`, `io.pressure`, `memory.pressure` of the server's cgroup (v2 only): time in which the server's own
//! tasks waited.

use spindoctor_model::Unavailable;
use spindoctor_model::host::Pressure;

use super::source::{HostSource, Target, reading};
use super::{cgroup, pressure};
use crate::pace::Pace;
use crate::source::Cadence;

/// Pressure of the server's cgroup.
pub const SOURCE: HostSource = HostSource {
    name: "cpu.pressure",
    help: "how long tasks of the server's cgroup stood still for want of CPU, storage or memory",
    cost: "five small files",
    needs: "cgroup v2, and a kernel with CONFIG_PSI that was not started with psi=0",
    cadence: Cadence::EverySample,
    pace: Pace::of_counters(),
    read: |target, sample, now| sample.cgroup_pressure = reading(collect(target), now),
};

fn collect(target: &Target) -> Result<Pressure, Unavailable> {
    let Some(cgroup) = cgroup::find(target, cgroup::UNIFIED)? else {
        return Err(Unavailable::because("pressure of a cgroup needs cgroup v2, and the server is in none"));
    };
    let leaf = &cgroup.levels[0];
    // The root group's files are the host's, which `/proc/pressure` shows.
    if !leaf.folder.join("cgroup.events").exists() {
        return Err(Unavailable::because(
            "the server is in the root cgroup of v2: its pressure is the host's",
        ));
    }
    let pressure = pressure::collect(|resource| leaf.folder.join(format!("{resource}.pressure")))?;
    Ok(Pressure { cgroup: Some(leaf.name.clone()), ..pressure })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{put, target};
    use super::*;

    #[test]
    fn the_servers_own_group_is_distinguished_from_the_host() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "proc/7/cgroup", "1:cpu:/x\n0::/db\n");
        put(root.path(), "sys/fs/cgroup/unified/db/cgroup.events", "populated 1\nfrozen 0\n");
        put(root.path(), "sys/fs/cgroup/unified/db/cpu.pressure", "some avg10=0.00 total=9\nfull total=8\n");
        let target = target(root.path());
        let found = collect(&target).unwrap();
        assert_eq!(
            (found.cgroup.as_deref(), found.cpu_some_us, found.io_some_us),
            (Some("/db"), Some(9), None)
        );

        put(root.path(), "proc/7/cgroup", "0::/\n");
        assert!(collect(&target).unwrap_err().because.contains("the host's"));
    }
}
