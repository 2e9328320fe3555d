//! Who blocks whom: of the newest sample, or as an event kept it.

use spindoctor_model::Window;
use spindoctor_rules::wait_graph;

use super::verdict;
use crate::locks::of_newest as locks_of_newest;
use crate::locks::waits::Locks;
use crate::top::moment::Moment;
use crate::top::view::no_change;

/// The graph, and where it is from.
#[derive(Debug, Clone, PartialEq)]
pub struct LocksShown {
    /// The graph; none where no source shows who waits.
    pub locks: Option<Locks>,
    /// What has to be known of it.
    pub note: String,
}

/// What to show of a moment.
pub fn shown(moment: &Moment, window: &Window) -> LocksShown {
    if let Some(kept) = &moment.graph {
        let graph = kept.graph.clone();
        let locks = Locks {
            roots: wait_graph::roots(&graph),
            cycles: wait_graph::cycles(&graph),
            graph,
            at: kept.at,
            server: verdict::server_text(&window.server),
            ..Locks::default()
        };
        let at = kept.at.strftime("%H:%M:%S%.1f").to_string();
        return LocksShown {
            locks: Some(locks),
            note: format!("as kept with the event, {at} UTC, with stacks"),
        };
    }
    match locks_of_newest(window) {
        Some(locks) => LocksShown {
            locks: Some(locks),
            note: "from the server's lists; mutexes and commit queues need stacks: `spindoctor locks`"
                .to_owned(),
        },
        None => LocksShown {
            locks: None,
            note: format!(
                "who waits for whom is not known: {}",
                no_change(window, |s| &s.server.row_lock_waits)
            ),
        },
    }
}
