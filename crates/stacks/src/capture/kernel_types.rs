//! The running kernel's types, as far as a program asks for them.
//!
//! In: `/sys/kernel/btf/vmlinux`, with 125,000 types. Out: a [`Btf`] in which the structures and functions have content that
//! an object of `bpf/` names, and the others have none. To parse all of them takes three times as long, and a program's
//! fields are looked for among all that have a name. A type's number is the kernel's: it is asked for by number.
//!
//! The format is that of the kernel's Documentation/bpf/btf.rst.

use std::fs;

use aya::Btf;
use aya_obj::Object;
use rustc_hash::FxHashSet;

use super::kernel_program::{Aligned, unavailable};
use crate::error::Result;

const KERNEL: &str = "/sys/kernel/btf/vmlinux";

/// The kernel's types that an object relocates by, and its functions of these names.
///
/// # Errors
/// The kernel does not describe its types, or in a way that is not known.
pub(super) fn those_of(object: &Aligned<[u8]>, functions: &[&str], source_name: &'static str) -> Result<Btf> {
    let refused = |error: String| {
        unavailable(
            source_name,
            format!("the kernel does not describe its types: {error}"),
            "it needs one that is built with CONFIG_DEBUG_INFO_BTF",
        )
    };
    let kernel = fs::read(KERNEL).map_err(|error| refused(format!("cannot read {KERNEL}: {error}")))?;
    let parsed = Object::parse(&object.0).map_err(|error| refused(error.to_string()))?;
    let own = parsed.btf.as_ref().map(Btf::to_bytes).unwrap_or_default();
    let wanted = Types::of_bytes(&own).map(|own| own.structures()).unwrap_or_default();
    let wanted = wanted.into_iter().chain(functions.iter().map(|name| name.as_bytes())).collect();
    let fewer = Types::of_bytes(&kernel).and_then(|types| types.with_content_of(&wanted));
    let fewer = fewer.ok_or_else(|| refused(format!("{KERNEL} is not understood")))?;
    Btf::parse(&fewer, Default::default()).map_err(|error| refused(error.to_string()))
}

/// Described types: each with a name, what it is, and a size or another type, then its content.
struct Types<'a> {
    types: &'a [u8],
    /// Each ended by a zero.
    names: &'a [u8],
}

/// What a description begins with: magic, version, flags, its own length, then where types and names are behind it.
const HEADER_BYTES: usize = 24;
const MAGIC: u32 = 0x0001_eb9f;

/// What each type begins with.
const TYPE_BYTES: usize = 12;

/// Kinds of types, and the bit of a structure that is described elsewhere.
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const FORWARD: u32 = 7;
    pub(super) const FUNCTION: u32 = 12;
    pub(super) const PROTOTYPE: u32 = 13;
    pub(super) const VARIABLE: u32 = 14;
    pub(super) const SECTION: u32 = 15;
    pub(super) const TAG_OF_DECLARATION: u32 = 17;
    pub(super) const ENUM_64: u32 = 19;
}

/// One type.
struct Type<'a> {
    name: u32,
    kind: u32,
    /// All of it.
    bytes: &'a [u8],
}

impl<'a> Types<'a> {
    fn of_bytes(bytes: &'a [u8]) -> Option<Self> {
        let header = |at| word(bytes, at).map(|word| word as usize);
        if word(bytes, 0)? & 0x00ff_ffff != MAGIC {
            return None;
        }
        let behind = bytes.get(header(4)?..)?;
        let part = |offset: usize, length: usize| behind.get(offset..)?.get(..length);
        Some(Self { types: part(header(8)?, header(12)?)?, names: part(header(16)?, header(20)?)? })
    }

    /// Each type; none at last where the description is not understood.
    fn each(&self) -> impl Iterator<Item = Option<Type<'a>>> + use<'a> {
        let mut rest = self.types;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let next = first(rest);
            rest = next.as_ref().and_then(|one| rest.get(one.bytes.len()..)).unwrap_or_default();
            Some(next)
        })
    }

    fn name(&self, offset: u32) -> &'a [u8] {
        let rest = self.names.get(offset as usize..).unwrap_or_default();
        rest.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// The names of its structures, without what follows three underscores: the loader looks for them so.
    fn structures(&self) -> Vec<&'a [u8]> {
        let structures = self.each().flatten().filter(|one| matches!(one.kind, kind::STRUCT | kind::UNION));
        let name = |one: Type<'a>| {
            let name = self.name(one.name);
            let end = name.windows(3).position(|three| three == b"___").unwrap_or(name.len());
            &name[..end]
        };
        structures.map(name).filter(|name| !name.is_empty()).collect()
    }

    /// A description in which only structures and functions of these names have content, and those without a name.
    fn with_content_of(&self, wanted: &FxHashSet<&[u8]>) -> Option<Vec<u8>> {
        let mut types: Vec<u8> = Vec::with_capacity(self.types.len());
        for one in self.each() {
            let one = one?;
            match one.kind {
                kind::STRUCT | kind::UNION | kind::FUNCTION
                    if one.name != 0 && !wanted.contains(self.name(one.name)) =>
                {
                    for word in [0, kind::FORWARD << 24, 0] {
                        types.extend(word.to_le_bytes());
                    }
                }
                // Without parameters, constants and variables.
                kind::PROTOTYPE | kind::ENUM | kind::ENUM_64 | kind::SECTION => {
                    types.extend(&one.bytes[..4]);
                    types.extend((one.kind << 24).to_le_bytes());
                    types.extend(&one.bytes[8..TYPE_BYTES]);
                }
                _ => types.extend(one.bytes),
            }
        }
        let lengths = [HEADER_BYTES, 0, types.len(), types.len(), self.names.len()];
        let mut all = Vec::with_capacity(HEADER_BYTES + types.len() + self.names.len());
        all.extend(MAGIC.to_le_bytes());
        for length in lengths {
            all.extend(u32::try_from(length).ok()?.to_le_bytes());
        }
        all.extend(types);
        all.extend(self.names);
        Some(all)
    }
}

/// The type that some bytes begin with.
fn first(bytes: &[u8]) -> Option<Type<'_>> {
    let [name, information] = [word(bytes, 0)?, word(bytes, 4)?];
    let (kind, count) = (information >> 24 & 0x1f, (information & 0xffff) as usize);
    let content = match kind {
        kind::INT | kind::VARIABLE | kind::TAG_OF_DECLARATION => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::SECTION | kind::ENUM_64 => 12 * count,
        kind::ENUM | kind::PROTOTYPE => 8 * count,
        1..=kind::ENUM_64 => 0,
        _ => return None,
    };
    Some(Type { name, kind, bytes: bytes.get(..TYPE_BYTES + content)? })
}

/// Four bytes of a description: both machines have the lowest first.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use aya_obj::btf::BtfKind;

    use super::*;

    static SNAPSHOT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../bpf/snapshot.bpf.o"));
    static WAITS: &Aligned<[u8]> = &Aligned(*include_bytes!("../../bpf/waits.bpf.o"));
    static TRIGGER: &Aligned<[u8]> = &Aligned(*include_bytes!("../../bpf/trigger.bpf.o"));
    static CALLS: &Aligned<[u8]> = &Aligned(*include_bytes!("../../bpf/calls.bpf.o"));

    /// Its instructions as they fit the kernel.
    fn instructions(object: &Aligned<[u8]>, types: &Btf) -> Vec<(i32, i16)> {
        let mut object = Object::parse(&object.0).unwrap();
        object.relocate_btf(types).unwrap();
        let functions = object.functions.values().flat_map(|function| &function.instructions);
        functions.map(|instruction| (instruction.imm, instruction.off)).collect()
    }

    #[test]
    fn fewer_types_relocate_each_object_as_all_of_them_do() {
        let Ok(all) = Btf::from_sys_fs() else {
            println!("this kernel does not describe its types: nothing is compared");
            return;
        };
        for object in [SNAPSHOT, WAITS, TRIGGER, CALLS] {
            let fewer = those_of(object, &["bpf_iter_task"], "bpf").unwrap();
            assert_eq!(instructions(object, &fewer), instructions(object, &all));
            for (name, kind) in
                [("bpf_iter_task", BtfKind::Func), ("btf_trace_sched_switch", BtfKind::Typedef)]
            {
                let id = |types: &Btf| types.id_by_type_name_kind(name, kind).unwrap();
                assert_eq!(id(&fewer), id(&all));
            }
            assert!(fewer.id_by_type_name_kind("inode", BtfKind::Struct).is_err());
        }
    }

    #[test]
    fn a_description_that_is_cut_or_of_another_kind_is_not_understood() {
        let own = Object::parse(&SNAPSHOT.0).unwrap().btf.unwrap().to_bytes();
        let types = Types::of_bytes(&own).unwrap();
        assert!(types.structures().contains(&b"task_struct".as_slice()));
        assert!(!types.structures().contains(&b"pt_regs___x86".as_slice()));
        assert!(types.with_content_of(&FxHashSet::default()).is_some());
        let cut = Types { types: &types.types[..types.types.len() - 1], names: types.names };
        assert!(cut.with_content_of(&FxHashSet::default()).is_none());
        let unknown = [0, 31 << 24, 0_u32].map(u32::to_le_bytes).concat();
        assert!(Types { types: &unknown, names: &[] }.with_content_of(&FxHashSet::default()).is_none());
        assert!(Types::of_bytes(&own[..20]).is_none() && Types::of_bytes(&own[1..]).is_none());
    }
}
