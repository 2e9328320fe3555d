//! How often the server commits changes, from the counters of its statements.

use spindoctor_model::{Unavailable, Window};

/// Commits a second that wait for the redo log: explicit ones, or single statements that write.
pub(crate) fn commits_per_s(window: &Window) -> Result<f64, Unavailable> {
    let seconds = window.need_change(|s| &s.server.status)?.seconds;
    let writes: f64 =
        ["Com_insert", "Com_update", "Com_delete", "Com_replace", "Com_update_multi", "Com_delete_multi"]
            .iter()
            .filter_map(|name| window.status_growth(name))
            .sum();
    let explicit = window.need_growth("Com_commit")?;
    // A handful of explicit commits beside a stream of writes: the writes commit by themselves.
    let commits = if explicit * 20.0 >= writes { explicit.min(writes) } else { writes };
    Ok(commits / seconds)
}
