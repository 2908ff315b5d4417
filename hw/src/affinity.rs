//! Pinning a lane's thread to cores.

use crate::engine::EngineError;

/// Keeps the calling thread, and threads that it starts, on these cores; none: wherever it is.
#[cfg(target_os = "linux")]
pub fn pin(cores: &[u32]) -> Result<(), EngineError> {
    use rustix::thread::CpuSet;

    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for &core in cores {
        if core as usize >= CpuSet::MAX_CPU {
            return Err(EngineError::Backend(format!("there is no core {core}")));
        }
        set.set(core as usize);
    }
    rustix::thread::sched_setaffinity(None, &set).map_err(|error| {
        EngineError::Backend(format!(
            "the thread cannot be pinned to cores {cores:?} ({error}); usable are {:?}",
            usable()
        ))
    })?;
    // The kernel takes a set of which only some cores exist; the profile then means another machine.
    let usable = usable();
    match cores.iter().find(|core| !usable.contains(core)) {
        None => Ok(()),
        Some(missing) => Err(EngineError::Backend(format!(
            "core {missing} of {cores:?} is not usable here; usable are {usable:?}"
        ))),
    }
}

/// Cores that the calling thread may run on.
#[cfg(target_os = "linux")]
pub fn usable() -> Vec<u32> {
    use rustix::thread::CpuSet;

    let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU as u32)
        .filter(|&core| set.is_set(core as usize))
        .collect()
}

/// Keeps nothing anywhere: there is no such interface here, and the scheduler of the system decides.
#[cfg(not(target_os = "linux"))]
pub fn pin(_: &[u32]) -> Result<(), EngineError> {
    Ok(())
}

/// Cores of the machine.
#[cfg(not(target_os = "linux"))]
pub fn usable() -> Vec<u32> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (0..cores as u32).collect()
}
