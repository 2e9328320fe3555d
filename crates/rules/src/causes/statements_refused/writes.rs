//! Whether the server takes writes, and from whom.

use spindoctor_model::Window;

/// The variable that forbids writes, the strictest first.
pub(super) fn read_only(window: &Window) -> Option<&'static str> {
    let is_on = |name: &&&str| {
        // MariaDB 12 has more values than ON, and each of them forbids writes.
        window
            .variable(name)
            .is_some_and(|value| !matches!(value.to_ascii_uppercase().as_str(), "OFF" | "0" | ""))
    };
    ["innodb_read_only", "super_read_only", "read_only"].iter().find(is_on).copied()
}

/// `innodb_force_recovery`, where it makes InnoDB refuse writes: MySQL has it so from 4 on, older servers from 1 on.
pub(super) fn force_recovery(window: &Window) -> Option<f64> {
    window.variable_number("innodb_force_recovery").filter(|level| *level > 0.0)
}

/// The server that this one replicates, where it does.
pub(super) fn source_of(window: &Window) -> Option<String> {
    let channel = window.latest(|s| &s.server.replication)?.first()?;
    Some(format!("{}:{}", channel.source_host, channel.source_port))
}

/// Share of the writes that were refused, of those that came.
pub(super) fn of_writes(window: &Window, refused_per_s: f64) -> f64 {
    const WRITES: [&str; 9] = [
        "Com_insert",
        "Com_update",
        "Com_delete",
        "Com_replace",
        "Com_insert_select",
        "Com_replace_select",
        "Com_update_multi",
        "Com_delete_multi",
        "Com_load",
    ];
    let written: f64 = WRITES.iter().filter_map(|name| window.status_per_s(name)).sum();
    refused_per_s / (written + refused_per_s).max(f64::MIN_POSITIVE)
}
