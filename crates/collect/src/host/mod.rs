//! The host's side: what the kernel says about the server's process and the machine.
//!
//! One file per source. Each has a pure parser over the file's text, which never panics whatever
//! the text, and a short function that finds and reads the file under a [`Target`]'s roots.

pub mod block_device;
pub mod cgroup;
pub mod cgroup_pressure;
pub mod cpu_list;
pub mod cpu_model;
pub mod cpu_times;
pub mod data_directory;
pub mod disk_users;
pub mod disks;
pub mod effective_cpus;
#[expect(unsafe_code, reason = "SO_PEERCRED may say 0, which rustix cannot")]
pub mod find_server;
mod kernel_file;
pub mod listen_queues;
pub mod memory;
pub mod network_links;
pub mod numa;
pub mod numa_counters;
pub mod open_files;
pub mod other_programs;
pub mod page_cache;
#[expect(unsafe_code, reason = "the kernel is asked where pages lie")]
pub mod page_nodes;
#[expect(unsafe_code, reason = "an instruction is timed")]
pub mod pause;
pub mod pressure;
pub mod process;
mod sock_diag;
pub mod source;
#[expect(unsafe_code, reason = "memory of the server is read")]
pub mod srv_cpu_usage;
pub mod tcp_queues;
#[cfg(test)]
mod testing;
pub mod thread_ids;
pub mod threads;
pub mod throttling;

pub use find_server::HostChoice;
pub use source::{HostSource, Target};

/// Every source of the host, in the order in which they are read.
///
/// What changes fastest first; `pause` last, because it keeps a CPU busy for some milliseconds.
pub const SOURCES: &[HostSource] = &[
    process::SOURCE,
    throttling::SOURCE,
    cpu_times::SOURCE,
    pressure::SOURCE,
    cgroup_pressure::SOURCE,
    srv_cpu_usage::SOURCE,
    disks::SOURCE,
    listen_queues::SOURCE,
    memory::SOURCE,
    threads::SOURCE,
    numa_counters::SOURCE,
    other_programs::SOURCE,
    disk_users::SOURCE,
    effective_cpus::SOURCE,
    cpu_model::SOURCE,
    numa::SOURCE,
    data_directory::SOURCE,
    open_files::SOURCE,
    tcp_queues::SOURCE,
    page_cache::SOURCE,
    pause::SOURCE,
];

/// The kernel's release, as `uname -r` prints it; none where it cannot be read.
pub(crate) fn kernel_release(target: &Target) -> Option<String> {
    let text = kernel_file::read(&target.proc.join("sys/kernel/osrelease")).ok()?;
    Some(text.trim().to_owned()).filter(|release| !release.is_empty())
}
