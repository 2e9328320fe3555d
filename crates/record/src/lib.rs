//! The black box: a recording's file and its retention.
//!
//! Nothing here asks a server: samples come in raw and go out as they came, as a [`Window`](spindoctor_model::Window)
//! from which each reader computes what it shows. What starts an event is `spindoctor-stalls`. `FORMAT.md`
//! beside this crate describes the file for people who query it with sqlite3.

mod aside;
mod codec;
mod costs;
mod cut;
mod disk;
mod error;
mod events;
pub mod literals;
mod lock;
mod overview;
mod rare;
mod reader;
mod retention;
mod schema;
pub mod span;
mod statements;
mod stretch;
mod thin;
mod time;
mod writer;

pub use aside::set_aside;
pub use costs::SourceCost;
pub use cut::{Cut, CutOptions, add_to_cut, cut};
pub use disk::{NoRoom, has_room_in};
pub use error::Error;
pub use overview::OverviewPoint;
pub use rare::moves_by_itself;
pub use reader::Recording;
pub use stretch::Stretch;
pub use writer::{Writer, WriterOptions, Written};

/// Decodes the bytes of a chunk, whatever is in them: how many samples it has, none where they are no chunk. What is read
/// of a recording goes through this; a fuzzer asks it directly.
#[must_use]
pub fn decoded(chunk: &[u8]) -> Option<usize> {
    let read = |raw: &codec::Raw<'_>| raw.raise::<codec::ReadSecond>();
    let samples = codec::samples(chunk, |_| codec::Wish::Take, read);
    let _ = codec::times(chunk);
    let _ = codec::unpack::<spindoctor_model::Event>(chunk);
    samples.ok().map(|samples| samples.len())
}
