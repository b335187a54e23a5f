use super::*;

/// The relevant variables of `docker/.env.example`, as Healthchecks ships it.
const STOCK: &str = "DEFAULT_FROM_EMAIL=healthchecks@example.org\nEMAIL_HOST=\n\
                     EMAIL_HOST_PASSWORD=\nEMAIL_HOST_USER=\nEMAIL_PORT=587\nEMAIL_USE_TLS=True\n\
                     MASTER_BADGE_LABEL=Mychecks\nPING_BODY_LIMIT=10000\n\
                     PING_EMAIL_DOMAIN=localhost\nPING_ENDPOINT=http://localhost:8000/ping/\n\
                     REMOTE_USER_HEADER=\nSECRET_KEY=---\nSHELL_ENABLED=False\nSITE_NAME=Mychecks\n\
                     SITE_ROOT=http://localhost:8000\nSMTPD_PORT=\n";

#[test]
fn flags_of_the_server_match_the_environment() {
    let site = "SITE_ROOT=https://a\n";
    for (text, flags, advice) in [
        (
            STOCK,
            "--base-url http://localhost:8000 --site-name Mychecks --ping-body-limit 10000",
            0,
        ),
        (
            "SITE_ROOT=https://hc.example.org/\nPING_ENDPOINT=https://hc.example.org/ping/\n\
             SMTPD_PORT=2525\nSITE_NAME=Our checks\nPING_EMAIL_DOMAIN=hc.example.org\n\
             EMAIL_HOST=mx\nEMAIL_HOST_USER=me@example.org\nEMAIL_HOST_PASSWORD=pw\n\
             DEFAULT_FROM_EMAIL=Acme <a@b.example>\nSHELL_ENABLED=True",
            "--base-url https://hc.example.org --site-name 'Our checks' --ping-email-domain \
             hc.example.org --smtp-listen 0.0.0.0:2525 --mail-server smtp://me@example.org@mx:587 \
             --mail-from 'Acme <a@b.example>' --mail-password-file /etc/overdue/mail-password \
             --allow-shell",
            1,
        ),
        (
            &format!("{site}PING_ENDPOINT=https://hc-ping.example.org/\nEMAIL_HOST=x;y\n"),
            "--base-url https://a",
            2,
        ),
        (
            &format!("{site}EMAIL_HOST=mx\nEMAIL_HOST_USER=me\n"),
            "--base-url https://a --mail-server smtp://mx:587 --mail-from healthchecks@example.org",
            0,
        ),
        (
            &format!(
                "{site}EMAIL_HOST=mx\nEMAIL_HOST_USER=me\nEMAIL_HOST_PASSWORD=x\n\
                 EMAIL_USE_TLS=False\nEMAIL_PORT=25\n"
            ),
            "--base-url https://a --mail-server smtp+plain://mx:25 --mail-from \
             healthchecks@example.org",
            1,
        ),
        (
            &format!("{site}PING_BODY_LIMIT=None\n"),
            "--base-url https://a --ping-body-limit 10000000",
            1,
        ),
        (
            &format!("{site}PING_EMAIL_DOMAIN=hc.example.org\n"),
            "--base-url https://a",
            1,
        ),
        (
            &format!(
                "{site}REMOTE_USER_HEADER=HTTP_X_USER\nINTEGRATIONS_ALLOW_PRIVATE_IPS=False\n"
            ),
            "--base-url https://a",
            2,
        ),
        (
            &format!("{site}SITE_NAME=it's\n"),
            "--base-url https://a",
            1,
        ),
    ] {
        let serve = serve_flags(&ServerEnvironment::parse(text).unwrap());
        assert_eq!(
            (serve.flags.join(" ").as_str(), serve.advice.len()),
            (flags, advice),
            "{text} {:?}",
            serve.advice
        );
    }
}

#[test]
fn values_are_quoted_and_commented_as_in_compose_files() {
    for (line, value) in [
        ("K=abc # comment", "abc"),
        ("K=abc#def", "abc#def"),
        ("K=  abc  ", "abc"),
        ("K=# all of it", ""),
        ("K='a # b' # c", "a # b"),
        ("K=\"a # \\\"b\\\" \\$\" # c", "a # \"b\" $"),
        ("K=\"open", "\"open"),
        ("K=a\\nb", "a\\nb"),
    ] {
        let read = ServerEnvironment::parse(line).unwrap();
        assert_eq!(read.get("K").unwrap_or_default(), value, "{line}");
    }
}

#[test]
fn references_are_resolved_from_the_file_or_reported() {
    let text = "HOST=hc.example.org\nSITE_ROOT=https://${HOST}\nSITE_NAME=${NAME:-Ours}\n\
                MASTER_BADGE_LABEL=\"${HOST} ${EMPTY:-x}\"\nEMPTY=\nPING_EMAIL_DOMAIN='${HOST}'\n\
                SECRET_KEY=${SECRET}\nDB_PASSWORD=${DB}\nTELEGRAM_TOKEN=${ONE}\nONE=${TWO}\n\
                TWO=${ONE}\nPUSHOVER_API_TOKEN=a$b${c\nTRELLO_APP_KEY=${EMPTY-default}\n    \
                \"SLACK_CLIENT_ID=${HOST}\",\n";
    let environment = ServerEnvironment::parse(text).unwrap();
    for (name, value) in [
        ("SITE_ROOT", Some("https://hc.example.org")),
        ("SITE_NAME", Some("Ours")),
        ("MASTER_BADGE_LABEL", Some("hc.example.org x")),
        ("PING_EMAIL_DOMAIN", Some("${HOST}")),
        ("SECRET_KEY", None),
        ("TELEGRAM_TOKEN", None),
        ("PUSHOVER_API_TOKEN", Some("a$b${c")),
        ("TRELLO_APP_KEY", None),
        ("SLACK_CLIENT_ID", Some("${HOST}")),
    ] {
        assert_eq!(environment.get(name), value, "{name}");
    }
    let advice = serve_flags(&environment).advice.join("\n");
    assert!(
        advice.contains(
            "SECRET_KEY is ignored: it refers to ${SECRET}, which the file does not define; add a \
             line SECRET=…"
        ),
        "{advice}"
    );
    assert!(
        advice.contains("TELEGRAM_TOKEN is ignored") && !advice.contains("DB_PASSWORD"),
        "{advice}"
    );
    let advice = serve_flags(&environment.with_secret("s")).advice.join("\n");
    assert!(!advice.contains("SECRET_KEY"), "{advice}");
}

#[test]
fn variables_are_parsed_from_lines_and_lists() {
    let text = concat!(
        "# a comment=1\n A=1\nexport B=\"two words\"\nC='3'\nD=\nE=a=b\nno line\n",
        "        \"F=\\\"6\",\n\"G=7\"\nA=last\n"
    );
    let variables = ServerEnvironment::parse(text).unwrap();
    for (name, value) in [
        ("A", Some("last")),
        ("B", Some("two words")),
        ("C", Some("3")),
        ("D", None),
        ("E", Some("a=b")),
        ("F", Some("\"6")),
        ("G", Some("7")),
    ] {
        assert_eq!(variables.get(name), value, "{name}");
    }
    assert_eq!(variables.with_secret("s").get("SECRET_KEY"), Some("s"));
    for bad in ["", "a\nb\n", &"A=1\n".repeat(300_000)] {
        assert!(ServerEnvironment::parse(bad).is_err());
    }
    assert_eq!(
        format!("{:?}", ServerEnvironment::parse(text).unwrap()),
        "Environment(..)"
    );
}

#[test]
fn fuzz_environments() {
    const EXAMPLES: &[&str] = &[
        "SITE_ROOT=https://a.example\nSECRET_KEY='a b'\nexport PING_EMAIL_DOMAIN=\"x\" # y\n",
        "EMAIL_PORT=587\nEMAIL_USE_TLS=True\nTELEGRAM_TOKEN=1:a\n",
    ];
    crate::util::fuzzing::fuzz_text(EXAMPLES, |text| {
        let _ = ServerEnvironment::parse(text);
    });
}
