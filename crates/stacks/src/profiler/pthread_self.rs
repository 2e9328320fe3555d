//! The value of `pthread_self()` in a thread, by its thread pointer: programs name their threads so, MySQL in
//! SEMAPHORES.
//!
//! On x86-64 glibc's `struct pthread` begins where the thread pointer points, on aarch64 it ends there
//! (`THREAD_SELF` in `sysdeps/*/nptl/tls.h`). How large it is differs from release to release; glibc has it for debuggers.

use crate::module::Modules;

/// What glibc calls the size of its `struct pthread`, a 32-bit number (`nptl_db/structs.def`).
const SIZE_NAME: &str = "_thread_db_sizeof_pthread";

/// glibc's files: since 2.34 threads are in the first.
const FILES: [&str; 2] = ["libc.so.", "libpthread"];

/// How far `pthread_self()` lies below the thread pointer, in each thread of a process; none where the C library does not say.
pub(super) fn below_thread_pointer(modules: &mut Modules) -> Option<u64> {
    if cfg!(target_arch = "x86_64") { Some(0) } else { size_of_struct_pthread(modules) }
}

fn size_of_struct_pthread(modules: &mut Modules) -> Option<u64> {
    modules.beginnings().into_iter().find_map(|(module, address)| {
        let name = modules.module(module)?.base_name();
        if !FILES.iter().any(|file| name.starts_with(file)) {
            return None;
        }
        let elf = modules.image(address)?.elf;
        let size = elf.at(elf.data_symbol(SIZE_NAME, 4)?, 4)?.try_into().ok()?;
        Some(u64::from(u32::from_ne_bytes(size)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glibc_shows_how_large_its_threads_are() {
        let mut modules = Modules::of_process(std::process::id()).unwrap();
        let size = size_of_struct_pthread(&mut modules);
        assert_eq!(size.is_some(), cfg!(target_env = "gnu"));
        // 0x900 on x86-64 in 2.36; the thread's id alone is 720 bytes from its beginning.
        assert!(
            size.is_none_or(|size| (0x400..0x2000).contains(&size) && size.is_multiple_of(16)),
            "{size:x?}"
        );
    }
}
