//! One list of readings: the table that the server's and the host's part of a sample are made of, and what can be done
//! with a reading whatever it is of.
//!
//! [`ServerSample`](crate::ServerSample) and [`HostSample`](crate::HostSample) are written as such a table. A line of it
//! is all that this crate, the recording, the exports and the tests need to know of a reading; which source fills it, how
//! often and at what cost stands with the source in `crates/collect`.

use std::any::Any;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserializer, Serialize};

use crate::reading::{Outcome, Reading, Unavailable};

/// Makes a part of a sample of a list of readings: the struct, and the list [`Field`]s as its `READINGS`.
///
/// A line is `name: type => [what holds of it],` where what holds is any of [`About`]'s flags.
macro_rules! readings {
    (
        $(#[$about:meta])*
        pub struct $sample:ident, kept as $kept:literal, exported as $exported:literal {
            $( $(#[$doc:meta])* $field:ident: $value:ty => [$($flag:ident),*], )+
        }
        $( beside them { $( $(#[$other_doc:meta])* $other:ident: $other_type:ty, )+ } )?
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $sample {
            $( $(#[$doc])* pub $field: $crate::Reading<$value>, )+
            $( $( $(#[$other_doc])* pub $other: $other_type, )+ )?
        }

        impl $sample {
            /// Every reading, in the order of the fields.
            pub const READINGS: &'static [$crate::readings::Field<Self>] = &[$(
                $crate::readings::Field {
                    about: $crate::readings::About {
                        name: stringify!($field),
                        kept: concat!($kept, stringify!($field)),
                        exported: concat!($exported, stringify!($field)),
                        $( $flag: true, )*
                        ..$crate::readings::About::NOTHING
                    },
                    get: |sample| &sample.$field,
                    get_mut: |sample| &mut sample.$field,
                },
            )+];

            /// The reading of this name. In a constant, a name that there is not is an error of the compiler's.
            pub const fn field(name: &str) -> &'static $crate::readings::Field<Self> {
                $crate::readings::find(Self::READINGS, name)
            }

            /// A part of which nothing can be read: every reading says why.
            pub fn unavailable(why: &$crate::Unavailable) -> Self {
                let mut sample = Self::default();
                Self::READINGS.iter().for_each(|reading| reading.get_mut(&mut sample).fail(why.clone()));
                sample
            }

            /// Counts the times of all answers from an instant that lies `by_s` seconds earlier.
            pub fn shift(&mut self, by_s: f64) {
                Self::READINGS.iter().for_each(|reading| reading.get_mut(self).shift(by_s));
            }

            /// Every reading, with what is known of it.
            pub fn readings(
                &self,
            ) -> impl Iterator<Item = (&'static $crate::readings::About, &dyn $crate::readings::AnyReading)> {
                Self::READINGS.iter().map(|reading| (&reading.about, reading.get(self)))
            }
        }
    };
}
pub(crate) use readings;

/// What is known of a reading beside its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Its field in the sample, also in JSON and in a recording: `listen_queues`.
    pub name: &'static str,
    /// Its name in the costs of a recording: `host.listen_queues`.
    pub kept: &'static str,
    /// Its name in exports: `host_listen_queues`, `status`.
    pub exported: &'static str,
    /// Its numbers are exported one by one. Not those of lists that have a table of their own.
    pub numbers: bool,
    /// A value holds until the next one is read: a limit, a size. Not a counter, of which only the growth counts.
    pub lasts: bool,
    /// It does not change while the server runs: it is read once, and a recording keeps it apart.
    pub constant: bool,
}

impl About {
    /// No name, and no flag.
    pub(crate) const NOTHING: Self =
        Self { name: "", kept: "", exported: "", numbers: false, lasts: false, constant: false };

    /// True where an older value will do for a sample that has none.
    pub fn holds_on(&self) -> bool {
        self.lasts || self.constant
    }
}

/// A reading's place in a part of a sample.
#[derive(Debug)]
pub struct Field<S: 'static> {
    /// What is known of it.
    pub about: About,
    pub(crate) get: fn(&S) -> &dyn AnyReading,
    pub(crate) get_mut: fn(&mut S) -> &mut dyn AnyReading,
}

impl<S> Field<S> {
    /// The reading in this sample.
    pub fn get<'a>(&self, sample: &'a S) -> &'a dyn AnyReading {
        (self.get)(sample)
    }

    /// The same, to be changed.
    pub fn get_mut<'a>(&self, sample: &'a mut S) -> &'a mut dyn AnyReading {
        (self.get_mut)(sample)
    }
}

/// A reading, whatever it is of.
pub trait AnyReading: Any {
    /// What became of the source, without what it said.
    fn outcome(&self) -> Outcome<'_>;

    /// What it said.
    fn value(&self) -> Option<&dyn erased_serde::Serialize>;

    /// Counts the answer's time from an instant that lies `by_s` seconds earlier.
    fn shift(&mut self, by_s: f64);

    /// Records why there is no value; an answer or an earlier reason that is there already stays.
    fn fail(&mut self, why: Unavailable);

    /// Forgets what it holds: it is as if the source had not been asked.
    fn forget(&mut self);

    /// Fills a reading that was not asked for with the value of another one of the same field.
    fn fill(&mut self, at_s: f64, known: &dyn AnyReading);

    /// The same with a value that was serialised: see [`fill_from`](dyn AnyReading::fill_from).
    #[doc(hidden)]
    fn fill_erased(
        &mut self,
        at_s: f64,
        known: &mut dyn erased_serde::Deserializer<'_>,
    ) -> Result<(), erased_serde::Error>;
}

impl dyn AnyReading {
    /// Fills a reading that was not asked for with a value that was serialised.
    ///
    /// # Errors
    /// It is not a value of this reading.
    pub fn fill_from<'de, D: Deserializer<'de>>(&mut self, at_s: f64, known: D) -> Result<(), D::Error> {
        let mut known = <dyn erased_serde::Deserializer<'_>>::erase(known);
        self.fill_erased(at_s, &mut known).map_err(D::Error::custom)
    }
}

impl<T: Clone + Serialize + DeserializeOwned + 'static> AnyReading for Reading<T> {
    fn outcome(&self) -> Outcome<'_> {
        self.outcome()
    }

    fn value(&self) -> Option<&dyn erased_serde::Serialize> {
        self.value().map(|value| value as &dyn erased_serde::Serialize)
    }

    fn shift(&mut self, by_s: f64) {
        self.shift(by_s);
    }

    fn fail(&mut self, why: Unavailable) {
        self.fail(why);
    }

    fn forget(&mut self) {
        *self = Self::NotAsked;
    }

    fn fill(&mut self, at_s: f64, known: &dyn AnyReading) {
        let known: &dyn Any = known;
        let value = known.downcast_ref::<Self>().and_then(Self::value);
        if let (Self::NotAsked, Some(value)) = (&self, value) {
            *self = Self::Available { at_s, took_ms: 0.0, value: value.clone() };
        }
    }

    fn fill_erased(
        &mut self,
        at_s: f64,
        known: &mut dyn erased_serde::Deserializer<'_>,
    ) -> Result<(), erased_serde::Error> {
        if matches!(self, Self::NotAsked) {
            let value = erased_serde::deserialize(known)?;
            *self = Self::Available { at_s, took_ms: 0.0, value };
        }
        Ok(())
    }
}

/// The field of this name.
pub(crate) const fn find<S>(fields: &'static [Field<S>], name: &str) -> &'static Field<S> {
    let mut at = 0;
    while at < fields.len() {
        if is_same(fields[at].about.name.as_bytes(), name.as_bytes()) {
            return &fields[at];
        }
        at += 1;
    }
    panic!("the sample has no reading of this name")
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}
