//! The axes of a sweep that are no variables: what the clients do, and the CPUs and the quota of a throw-away server.
//!
//! The CPUs and the quota are those of the control group that the lab made for its server: it is gone with the server,
//! however the sweep ends, and no other process is in it.

use anyhow::{Context as _, bail};
use spindoctor_lab::load::Workload;
use spindoctor_lab::{CpuChoice, Limits, Server};
use spindoctor_tune::sweep::axes::{CPUSET, QUOTA, WORKLOAD};
use spindoctor_tune::sweep::{Axis, Setting};

use super::args::{Quota, Sweep as Asked};

/// The axes that were asked for, with their values once each.
pub fn axes(asked: &Asked) -> anyhow::Result<Vec<Axis>> {
    let workloads: Vec<String> =
        asked.workload.iter().filter_map(|workload| Some(workload.name()?.to_owned())).collect();
    for cpus in &asked.cpusets {
        CpuChoice::parse(cpus)?;
    }
    let quotas = asked.quotas.iter().map(ToString::to_string).collect();
    let axis = |variable: &str, values: Vec<String>| {
        let mut once: Vec<String> = Vec::new();
        for value in values {
            if !once.contains(&value) {
                once.push(value);
            }
        }
        Axis { variable: variable.to_owned(), values: once }
    };
    let mut axes = vec![axis(WORKLOAD, workloads), axis(CPUSET, asked.cpusets.clone()), axis(QUOTA, quotas)];
    axes.retain(|axis| !axis.values.is_empty() && (axis.variable != WORKLOAD || axis.values.len() > 1));
    Ok(axes)
}

/// The limits that the server is started with, so that there is a group whose limits can be changed: all CPUs of all sets,
/// and the largest quota.
pub fn at_start(asked: &Asked) -> anyhow::Result<Limits> {
    let choices = asked.cpusets.iter().map(|cpus| CpuChoice::parse(cpus)).collect::<Result<Vec<_>, _>>()?;
    let largest = asked.quotas.iter().filter_map(|quota| quota.0).reduce(f64::max);
    let is_varied = !asked.quotas.is_empty();
    Ok(Limits {
        // Where all of them are none there is nothing to vary.
        quota_cpus: if is_varied { largest } else { asked.quota },
        cpuset: (!choices.is_empty()).then(|| CpuChoice::union(&choices)),
        ..Limits::default()
    })
}

/// Sets what of a setting is a limit of the server.
pub fn set(server: Option<&Server>, setting: &Setting) -> anyhow::Result<()> {
    let (cpus, quota) = (setting.value(CPUSET), setting.value(QUOTA));
    let Some(server) = server else {
        return match (cpus, quota) {
            (None, None) => Ok(()),
            _ => bail!("only a throw-away server is in a control group of ours"),
        };
    };
    if let Some(cpus) = cpus {
        server.limit_cpus(&CpuChoice::parse(cpus)?)?;
    }
    if let Some(quota) = quota {
        let quota: Quota = quota.parse().map_err(anyhow::Error::msg)?;
        server.limit_quota(quota.0)?;
    }
    Ok(())
}

/// What the clients do with a setting.
pub fn workload(asked: &Asked, setting: &Setting) -> anyhow::Result<Workload> {
    match setting.value(WORKLOAD) {
        Some(name) => Workload::of_name(name).with_context(|| format!("sysbench has no workload {name}")),
        None => asked.workload.first().copied().context("no workload was asked for"),
    }
}

/// What must be known of a server whose limits change while it runs.
pub fn note(asked: &Asked) -> Option<String> {
    let varied: Vec<&str> = [(asked.cpusets.is_empty(), "CPUs"), (asked.quotas.is_empty(), "quota")]
        .into_iter()
        .filter_map(|(is_fixed, what)| (!is_fixed).then_some(what))
        .collect();
    (!varied.is_empty()).then(|| {
        format!(
            "the server's {} changed while it ran: it had counted its CPUs when it started, with the most of them",
            varied.join(" and ")
        )
    })
}
