//! The list of users of the machine (passwd(5)). Dynamic users of a supervisor are not in it.

/// A user in the list.
pub(crate) struct SystemUser {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) group: u32,
    pub(crate) home: String,
}

/// Reads the list; it is empty if there is none.
pub(crate) fn read_system_users() -> Vec<SystemUser> {
    let list = std::fs::read("/etc/passwd").unwrap_or_default();
    parse(&String::from_utf8_lossy(&list))
}

fn parse(list: &str) -> Vec<SystemUser> {
    let entry = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        let uid = fields.nth(1)?.parse().ok()?;
        let group = fields.next()?.parse().ok()?;
        Some(SystemUser {
            name,
            uid,
            group,
            home: fields.nth(1).unwrap_or_default().to_owned(),
        })
    };
    list.lines().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_name_no_user_are_left_out() {
        let list = "root:x:0:0:root:/root:/bin/sh\n\n#ann:x:1\nann:x:ann:5:::\nbob:x:7:8\nsvc:*:\
                    998:997:A, B:/var/lib/svc:/bin/false\n";
        let shown = |entry: &SystemUser| {
            format!(
                "{} {} {} {}",
                entry.name, entry.uid, entry.group, entry.home
            )
        };
        let entries: Vec<_> = parse(list).iter().map(shown).collect();
        assert_eq!(
            entries,
            ["root 0 0 /root", "bob 7 8 ", "svc 998 997 /var/lib/svc"]
        );
    }
}
