//! Crontabs of the machine, and its timers as `systemctl` lists them. Missing and unreadable ones
//! are left out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::agent::discover::{
    Crontab, CrontabOwner, LIST_TIMERS_ARGS, SystemdTimer, TIMER_PROPERTIES, parse_timer_list,
    parse_timers,
};
use crate::cli::common_args::read_limited;

/// Name of the crontab of the current user.
pub(super) const OWN_CRONTAB_NAME: &str = "crontab";
/// Maximum bytes that are read of a crontab.
pub(super) const MAX_CRONTAB_BYTES: u64 = 1 << 20;

/// Directories with the crontabs of users.
const CRONTAB_DIRECTORIES: [&str; 2] = ["/var/spool/cron/crontabs", "/var/spool/cron"];

/// Returns the name of this machine, without its domain.
pub(super) fn host_name() -> String {
    let read = ["/proc/sys/kernel/hostname", "/etc/hostname"]
        .into_iter()
        .find_map(|path| fs::read_to_string(path).ok());
    let name = read.unwrap_or_default();
    name.trim()
        .split('.')
        .next()
        .filter(|name| !name.is_empty())
        .unwrap_or("host")
        .to_owned()
}

/// Returns every crontab that can be read.
pub(super) fn read_crontabs() -> Vec<Crontab> {
    let mut crontabs = Vec::new();
    let system = std::iter::once(PathBuf::from("/etc/crontab"))
        .chain(crontab_files(Path::new("/etc/cron.d")));
    crontabs.extend(system.filter_map(|path| read_crontab(&path, CrontabOwner::System)));
    let users: Vec<_> = CRONTAB_DIRECTORIES
        .iter()
        .flat_map(|spool| crontab_files(Path::new(spool)))
        .filter_map(|path| read_crontab(&path, CrontabOwner::User))
        .collect();
    if users.is_empty() {
        crontabs.extend(command_output("crontab", &["-l"]).map(|text| Crontab {
            name: OWN_CRONTAB_NAME.into(),
            text,
            owner: CrontabOwner::User,
        }));
    }
    crontabs.extend(users);
    crontabs
}

/// Returns the files of a directory with names that cron accepts.
fn crontab_files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|entry| entry.path());
    let is_crontab = |path: &PathBuf| {
        path.is_file()
            && path
                .file_name()
                .is_some_and(|name| !name.to_string_lossy().contains(['.', '~']))
    };
    let mut files: Vec<_> = entries.filter(is_crontab).collect();
    files.sort();
    files
}

fn read_crontab(path: &Path, owner: CrontabOwner) -> Option<Crontab> {
    let text = String::from_utf8(read_limited(path, MAX_CRONTAB_BYTES).ok()?).ok()?;
    Some(Crontab {
        name: path.display().to_string(),
        text,
        owner,
    })
}

/// Returns the timers of the system and of the current user, with the directories for their units.
pub(super) fn query_timers() -> Vec<(Vec<SystemdTimer>, String)> {
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .filter(|home| home.is_absolute());
    let user_directory = home.map(|home| home.join(".config/systemd/user").display().to_string());
    let system = timers_of_manager(&[]).map(|timers| (timers, "/etc/systemd/system".to_owned()));
    let user =
        user_directory.and_then(|directory| Some((timers_of_manager(&["--user"])?, directory)));
    system.into_iter().chain(user).collect()
}

fn timers_of_manager(manager: &[&str]) -> Option<Vec<SystemdTimer>> {
    let list: Vec<_> = manager.iter().chain(&LIST_TIMERS_ARGS).copied().collect();
    let names = parse_timer_list(&command_output("systemctl", &list)?).ok()?;
    if names.is_empty() {
        return None;
    }
    let show: Vec<_> = manager
        .iter()
        .copied()
        .chain(["show", "-p", TIMER_PROPERTIES])
        .chain(names.iter().map(String::as_str))
        .collect();
    Some(parse_timers(&command_output("systemctl", &show)?))
}

/// Returns the output of a command; `None` if it does not exist or fails.
fn command_output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8(output.stdout).ok())
        .flatten()
}
