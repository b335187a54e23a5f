# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_overdue_global_optspecs
    string join \n data= h/help V/version
end

function __fish_overdue_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_overdue_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_overdue_using_subcommand
    set -l cmd (__fish_overdue_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c overdue -n "__fish_overdue_needs_command" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_needs_command" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_needs_command" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "serve" -d 'Run the server'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "project" -d 'Make, list, change and delete projects'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "key" -d 'Make, list and revoke API keys and ping keys'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "channel" -d 'Make, list, test, change and delete notification channels, and assign checks to them'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "check" -d 'Make, list, change, pause and delete checks, and show their pings and flips'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "user" -d 'Make, list, change and delete users of the dashboard, and print the links by which they choose their passwords'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "window" -d 'Make, list and delete maintenance windows'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "mute" -d 'Silence alerts for a duration; checks that are still down afterwards alert then'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "deliveries" -d 'List alerts with their results, newest first, or send a failed one again'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "schedule" -d 'Show when a schedule expects its job to run'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "export" -d 'Export the configuration as a file for `apply`, or everything with logs as lines for `import overdue`'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "diff" -d 'Show the changes that `apply` would make; the exit status is 3 if there are any'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "apply" -d 'Apply configuration files atomically'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "discover" -d 'Find jobs in crontabs and timers, and propose a check for each, with the edit that makes it report. Nothing is edited'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "import" -d 'Import data from another program, or preview the import. The source is not modified'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "schema" -d 'Print the JSON Schema of configuration files, for editors'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "run" -d 'Run a job and report its start, its exit status and the end of its output'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "ping" -d 'Send a ping'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "backup" -d 'Back up the database to a file, also while a server runs'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "restore" -d 'Restore a backup into the data directory, while no server runs'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "verify" -d 'Check that the database, or a backup, can be read completely, and show what takes space in it'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "compact" -d 'Give back the disk space that the database no longer uses, while no server runs'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "health" -d 'Check that the server on this machine takes pings; the exit status is 0 if it does'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "completions" -d 'Print the completion script for a shell'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "man" -d 'Write the manual pages into a directory'
complete -c overdue -n "__fish_overdue_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l listen -d 'Address and port to take HTTP requests on, such as 0.0.0.0:8000 for all addresses of this machine; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l tls-cert -d 'PEM file of a certificate and its chain: HTTP is taken by TLS alone. It is read again when it changes, and at SIGHUP' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l tls-key -d 'PEM file of the certificate\'s private key' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l base-url -d 'URL under which the service is reached, with its path if it has one [default: the first listen address]' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l site-name -d 'Name of the site: the label on the badges of whole projects' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l trusted-proxy -d 'Proxies whose X-Forwarded-For, X-Forwarded-Proto and Forwarded are believed; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l ping-body-limit -d 'Bytes of a ping\'s body that are stored' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l smtp-listen -d 'Address and port to take pings by SMTP on; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l ping-email-domain -d 'Domain of the addresses that mail pings: UUID@DOMAIN and PINGKEY+SLUG@DOMAIN' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l smtp-tls-cert -d 'PEM file of a certificate and its chain: SMTP offers STARTTLS with it' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l smtp-tls-key -d 'PEM file of the certificate\'s private key' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l api-rate -d 'API requests a minute for each key; 0 for no limit' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l api-burst -d 'API requests that a key may make at once after a pause' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l connections-per-address -d 'HTTP connections that one address may have at once; IPv6 counts by /64, and trusted proxies have no limit of their own' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l auth -d 'Who sees the dashboard: password (whoever signs in) or none (everybody on this machine and behind trusted proxies, as an owner)' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l auth-header -d 'Header in which a trusted proxy names the user, such as Remote-User; the proxy has to take it off what comes from outside' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l auth-header-secret-file -d 'File with what the proxy has to send in X-Overdue-Proxy-Secret for its header to count' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l auth-new-users -d 'Access to all projects for users whom the proxy names and who were not added here: no (none), read-only or member' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l auth-logout-url -d 'URL to which users whom the proxy signed in are sent when they sign out' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l session-days -d 'Days after which whoever has not used the dashboard signs in again' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l log -d 'How much is logged: off, error, warn, info, debug or trace' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l log-format -d 'How the log is written: text, or json (an object on each line)' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l metrics-listen -d 'Address and port to read metrics on without a key, as Prometheus does at /metrics; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l metrics-token-file -d 'File with the token by which metrics are read at /metrics of the other addresses, as in Authorization: Bearer TOKEN' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l after-outage -d 'What becomes of alerts for pings that may have been lost while the server could take none: hold (the job gets the chance to report again) or at-once' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l heartbeat-url -d 'URL that is fetched as long as all is well, such as the ping URL of a check of another server: silence is the alarm' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l heartbeat-every -d 'Seconds between two heartbeats' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l backup-to -d 'Directory in which the server makes backups by itself, which has to be there. The packaged service may write to /var/backups/overdue; another one has to stand in ReadWritePaths= of its unit (systemctl edit overdue) [default: none are made]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l backup-every -d 'Time from one backup to the next, in minutes, hours or days: 30m, 12h, 1d' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l backup-keep -d 'How many backups are kept, the newest' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l apply -d 'Files or directories that declare what there is to be: applied before requests are taken, and again at SIGHUP; may be given several times, with commas in the variable' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l apply-prune -d 'Delete what the source of these files made and no longer names, at most 10 objects unless a number is given' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l time-zone -d 'Time zone of the times in alerts about checks that have none of their own [default: the machine\'s, else UTC]' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l mail-server -d 'Mail server for alerts: smtps://USER@HOST (TLS), smtp://USER@HOST (STARTTLS) or smtp+plain://HOST (no TLS); the user may be left out' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l mail-password-file -d 'File whose first line is the password for the mail server' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l mail-from -d 'Sender of alerts by mail, as in \'overdue <alerts@example.org>\'' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l outbound -d 'What channels made through the API may reach: private (public addresses and private networks) or public (public addresses alone). Channels made at the command line may reach everything. Behind a proxy only addresses can be judged, names cannot' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l outbound-allow -d 'Network that channels made through the API may reach besides, as in 127.0.0.1; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l outbound-deny -d 'Network that channels made through the API may not reach; the smallest network that is named counts; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l outbound-proxy -d 'Proxy for alerts by HTTP: http://HOST:PORT, socks5://HOST:PORT, or none [default: what HTTPS_PROXY, HTTP_PROXY, ALL_PROXY say]; NO_PROXY names exceptions' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l ca-file -d 'PEM file of certificate authorities to trust besides the system\'s' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l send-per-host -d 'Requests that are sent to one host and port at once' -r
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l no-web -d 'Disable the dashboard'
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l access-log -d 'Log every HTTP request, with *** in place of whatever may be a secret in its path'
complete -c overdue -n "__fish_overdue_using_subcommand serve" -l allow-shell -d 'Run the commands of channels of kind shell'
complete -c overdue -n "__fish_overdue_using_subcommand serve" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand serve" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand project; and not __fish_seen_subcommand_from create list rename delete release set help" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand project; and not __fish_seen_subcommand_from create list rename delete release set help" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand project; and not __fish_seen_subcommand_from create list rename delete release set help" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand project; and not __fish_seen_subcommand_from create list rename delete release set help" -f -a "create" -d 'Make a project and print its UUID'
complete -c overdue -n "__fish_overdue_using_subcommand project; and not __fish_seen_subcommand_from create list rename delete release set help" -f -a "list" -d 'List the projects'
complete -c overdue -n "__fish_overdue_using_subcommand project; and not __fish_seen_subcommand_from create list rename delete release set help" -f -a "rename" -d 'Give a project another name'
complete -c overdue -n "__fish_overdue_using_subcommand project; and not __fish_seen_subcommand_from create list rename delete release set help" -f -a "delete" -d 'Delete a project with its checks, keys and channels'
complete -c overdue -n "__fish_overdue_using_subcommand project; and not __fish_seen_subcommand_from create list rename delete release set help" -f -a "release" -d 'End the trial of a project that was imported: from now on it tells. What is down and was not told where it came from is told'
complete -c overdue -n "__fish_overdue_using_subcommand project; and not __fish_seen_subcommand_from create list rename delete release set help" -f -a "set" -d 'Change the limits of a project'
complete -c overdue -n "__fish_overdue_using_subcommand project; and not __fish_seen_subcommand_from create list rename delete release set help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from create" -l check-limit -d 'Checks that it may have, or none for no limit [new projects: none]' -r
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from create" -l ping-log-limit -d 'Pings of each check that are kept [new projects: 100]' -r
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from create" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from create" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from create" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from list" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from list" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from rename" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from rename" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from rename" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from delete" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from delete" -l yes -d 'Do not ask; needed where nobody can be asked'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from delete" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from delete" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from release" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from release" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from release" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from set" -l check-limit -d 'Checks that it may have, or none for no limit [new projects: none]' -r
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from set" -l ping-log-limit -d 'Pings of each check that are kept [new projects: 100]' -r
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from set" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from set" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "create" -d 'Make a project and print its UUID'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the projects'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "rename" -d 'Give a project another name'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "delete" -d 'Delete a project with its checks, keys and channels'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "release" -d 'End the trial of a project that was imported: from now on it tells. What is down and was not told where it came from is told'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "set" -d 'Change the limits of a project'
complete -c overdue -n "__fish_overdue_using_subcommand project; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand key; and not __fish_seen_subcommand_from create list revoke help" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand key; and not __fish_seen_subcommand_from create list revoke help" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand key; and not __fish_seen_subcommand_from create list revoke help" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand key; and not __fish_seen_subcommand_from create list revoke help" -f -a "create" -d 'Make a key and print it; an API key is stored hashed and never shown again'
complete -c overdue -n "__fish_overdue_using_subcommand key; and not __fish_seen_subcommand_from create list revoke help" -f -a "list" -d 'List the keys, without the keys themselves'
complete -c overdue -n "__fish_overdue_using_subcommand key; and not __fish_seen_subcommand_from create list revoke help" -f -a "revoke" -d 'Revoke a key at once'
complete -c overdue -n "__fish_overdue_using_subcommand key; and not __fish_seen_subcommand_from create list revoke help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from create" -l project -d 'Name or UUID of its project [default: the only one there is]' -r
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from create" -l access -d 'What it opens: the API, what of the API only reads, or pinging by slug' -r -f -a "read-write\t''
read-only\t''
ping\t''"
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from create" -l label -d 'What you call it, such as the name of who gets it' -r
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from create" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from create" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from create" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from list" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from list" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from list" -l show-ping-keys -d 'Show ping keys: whoever knows one can ping the project\'s checks'
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from list" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from revoke" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from revoke" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "create" -d 'Make a key and print it; an API key is stored hashed and never shown again'
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the keys, without the keys themselves'
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "revoke" -d 'Revoke a key at once'
complete -c overdue -n "__fish_overdue_using_subcommand key; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -f -a "create" -d 'Make a channel and print its UUID'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -f -a "list" -d 'List the channels, and show which do not work'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -f -a "rename" -d 'Give a channel another name'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -f -a "set" -d 'Give a channel other settings, in place of all that it had or beside them'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -f -a "test" -d 'Send a test to a channel, or to each channel of a group, and say what came of it; one that arrives enables the channel'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -f -a "enable" -d 'Enable a channel'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -f -a "disable" -d 'Disable a channel; alerts that wait for it are skipped'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -f -a "assign" -d 'Notify a channel about checks'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -f -a "unassign" -d 'Stop notifying a channel about checks'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -f -a "delete" -d 'Delete a channel; checks are no longer assigned to it'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -f -a "kinds" -d 'Show what kinds of channel there are and what can be set'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and not __fish_seen_subcommand_from create list rename set test enable disable assign unassign delete kinds help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l project -d 'Name or UUID of its project [default: the only one there is]' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l kind -d 'How it notifies' -r -f -a "alertmanager\t''
apprise\t''
call\t''
discord\t''
email\t''
github\t''
googlechat\t''
gotify\t''
group\t''
matrix\t''
mattermost\t''
msteamsw\t''
ntfy\t''
opsgenie\t''
pagertree\t''
pd\t''
po\t''
pushbullet\t''
rocketchat\t''
shell\t''
signal\t''
slack\t''
sms\t''
spike\t''
telegram\t''
trello\t''
victorops\t''
webhook\t''
whatsapp\t''
zulip\t''"
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l name -d 'Its name, which others may have too' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l set -d 'A setting of its kind; may be given several times, the variable holds one' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l set-file -d 'File with more settings, one on each line, so that secrets stand in no command line' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l assign -d 'Checks that it is told about from now on: all there are in the project, or tag:TAG for those with a tag' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l time-zone -d 'Time zone of the times in alerts about checks that have none of their own [default: the machine\'s, else UTC]' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l mail-server -d 'Mail server for alerts: smtps://USER@HOST (TLS), smtp://USER@HOST (STARTTLS) or smtp+plain://HOST (no TLS); the user may be left out' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l mail-password-file -d 'File whose first line is the password for the mail server' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l mail-from -d 'Sender of alerts by mail, as in \'overdue <alerts@example.org>\'' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l outbound -d 'What channels made through the API may reach: private (public addresses and private networks) or public (public addresses alone). Channels made at the command line may reach everything. Behind a proxy only addresses can be judged, names cannot' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l outbound-allow -d 'Network that channels made through the API may reach besides, as in 127.0.0.1; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l outbound-deny -d 'Network that channels made through the API may not reach; the smallest network that is named counts; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l outbound-proxy -d 'Proxy for alerts by HTTP: http://HOST:PORT, socks5://HOST:PORT, or none [default: what HTTPS_PROXY, HTTP_PROXY, ALL_PROXY say]; NO_PROXY names exceptions' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l ca-file -d 'PEM file of certificate authorities to trust besides the system\'s' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l send-per-host -d 'Requests that are sent to one host and port at once' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l test -d 'Send a test to it'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -l allow-shell -d 'Run the commands of channels of kind shell'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from create" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from list" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from list" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from list" -l show-settings -d 'Show settings, with *** in place of secrets'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from list" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from rename" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from rename" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from rename" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from rename" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from set" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from set" -l set -d 'A setting of its kind; may be given several times, the variable holds one' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from set" -l set-file -d 'File with more settings, one on each line, so that secrets stand in no command line' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from set" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from set" -l keep -d 'Change only the settings that are given; the others stay'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from set" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l event -d 'Whether to try what is sent when a check is down, or when it is up again' -r -f -a "down\t''
up\t''"
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l time-zone -d 'Time zone of the times in alerts about checks that have none of their own [default: the machine\'s, else UTC]' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l mail-server -d 'Mail server for alerts: smtps://USER@HOST (TLS), smtp://USER@HOST (STARTTLS) or smtp+plain://HOST (no TLS); the user may be left out' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l mail-password-file -d 'File whose first line is the password for the mail server' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l mail-from -d 'Sender of alerts by mail, as in \'overdue <alerts@example.org>\'' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l outbound -d 'What channels made through the API may reach: private (public addresses and private networks) or public (public addresses alone). Channels made at the command line may reach everything. Behind a proxy only addresses can be judged, names cannot' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l outbound-allow -d 'Network that channels made through the API may reach besides, as in 127.0.0.1; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l outbound-deny -d 'Network that channels made through the API may not reach; the smallest network that is named counts; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l outbound-proxy -d 'Proxy for alerts by HTTP: http://HOST:PORT, socks5://HOST:PORT, or none [default: what HTTPS_PROXY, HTTP_PROXY, ALL_PROXY say]; NO_PROXY names exceptions' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l ca-file -d 'PEM file of certificate authorities to trust besides the system\'s' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l send-per-host -d 'Requests that are sent to one host and port at once' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -l allow-shell -d 'Run the commands of channels of kind shell'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from test" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from enable" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from enable" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from enable" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from enable" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from disable" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from disable" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from disable" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from disable" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from assign" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from assign" -l tag -d 'Every check with this tag; may be given several times for those with all of them, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from assign" -l check -d 'UUIDs, slugs or names of checks; may be given several times, the variable holds one' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from assign" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from assign" -l all -d 'Every check that the channel\'s project has now'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from assign" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from assign" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from assign" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from unassign" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from unassign" -l tag -d 'Every check with this tag; may be given several times for those with all of them, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from unassign" -l check -d 'UUIDs, slugs or names of checks; may be given several times, the variable holds one' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from unassign" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from unassign" -l all -d 'Every check that the channel\'s project has now'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from unassign" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from unassign" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from unassign" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from delete" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from delete" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from delete" -l yes -d 'Do not ask. Without it a terminal is asked'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from delete" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from delete" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from kinds" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from kinds" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from kinds" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from kinds" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "create" -d 'Make a channel and print its UUID'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the channels, and show which do not work'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "rename" -d 'Give a channel another name'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "set" -d 'Give a channel other settings, in place of all that it had or beside them'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "test" -d 'Send a test to a channel, or to each channel of a group, and say what came of it; one that arrives enables the channel'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "enable" -d 'Enable a channel'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "disable" -d 'Disable a channel; alerts that wait for it are skipped'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "assign" -d 'Notify a channel about checks'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "unassign" -d 'Stop notifying a channel about checks'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "delete" -d 'Delete a channel; checks are no longer assigned to it'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "kinds" -d 'Show what kinds of channel there are and what can be set'
complete -c overdue -n "__fish_overdue_using_subcommand channel; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand check; and not __fish_seen_subcommand_from list show create set pause resume alerting delete pings flips help" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand check; and not __fish_seen_subcommand_from list show create set pause resume alerting delete pings flips help" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand check; and not __fish_seen_subcommand_from list show create set pause resume alerting delete pings flips help" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand check; and not __fish_seen_subcommand_from list show create set pause resume alerting delete pings flips help" -f -a "list" -d 'List the checks'
complete -c overdue -n "__fish_overdue_using_subcommand check; and not __fish_seen_subcommand_from list show create set pause resume alerting delete pings flips help" -f -a "show" -d 'Show all of a check'
complete -c overdue -n "__fish_overdue_using_subcommand check; and not __fish_seen_subcommand_from list show create set pause resume alerting delete pings flips help" -f -a "create" -d 'Make a check and print its UUID'
complete -c overdue -n "__fish_overdue_using_subcommand check; and not __fish_seen_subcommand_from list show create set pause resume alerting delete pings flips help" -f -a "set" -d 'Change what is given of a check'
complete -c overdue -n "__fish_overdue_using_subcommand check; and not __fish_seen_subcommand_from list show create set pause resume alerting delete pings flips help" -f -a "pause" -d 'Stop watching a check until it is pinged or resumed'
complete -c overdue -n "__fish_overdue_using_subcommand check; and not __fish_seen_subcommand_from list show create set pause resume alerting delete pings flips help" -f -a "resume" -d 'Watch a paused check again from its next ping on'
complete -c overdue -n "__fish_overdue_using_subcommand check; and not __fish_seen_subcommand_from list show create set pause resume alerting delete pings flips help" -f -a "alerting" -d 'Show when it is told that a check is down, and change that'
complete -c overdue -n "__fish_overdue_using_subcommand check; and not __fish_seen_subcommand_from list show create set pause resume alerting delete pings flips help" -f -a "delete" -d 'Delete a check with its logs'
complete -c overdue -n "__fish_overdue_using_subcommand check; and not __fish_seen_subcommand_from list show create set pause resume alerting delete pings flips help" -f -a "pings" -d 'List the pings of a check, newest first'
complete -c overdue -n "__fish_overdue_using_subcommand check; and not __fish_seen_subcommand_from list show create set pause resume alerting delete pings flips help" -f -a "flips" -d 'List the changes of a check\'s status, newest first'
complete -c overdue -n "__fish_overdue_using_subcommand check; and not __fish_seen_subcommand_from list show create set pause resume alerting delete pings flips help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from list" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from list" -l tag -d 'Tag that a check must have; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from list" -l status -d 'Status that a check must have; may be given several times, with commas in the variable [default: any]' -r -f -a "down\t''
grace\t''
up\t''
new\t''
paused\t''"
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from list" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from list" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from show" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from show" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from show" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from show" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l project -d 'Name or UUID of its project [default: the only one there is]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l unique -d 'Change the check that agrees on all of these, if there is one; may be given several times, with commas in the variable' -r -f -a "name\t''
slug\t''
tags\t''
timeout\t''
grace\t''"
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l name -d 'Its name' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l slug -d 'What ping URLs by slug name it by: a to z, 0 to 9, hyphens and underscores' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l tags -d 'Its tags, with spaces between them' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l desc -d 'Its description' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l timeout -d 'Time between two pings, in place of a schedule, in seconds or as in 15m, 2h or 1d [new checks: 86400]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l grace -d 'Time that a ping may be late, in seconds or as in 15m, 2h or 1d [new checks: 3600]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l schedule -d 'When pings are expected: a cron expression of five fields, or an OnCalendar expression of systemd' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l tz -d 'Time zone of the schedule, such as Europe/Riga [new checks: UTC]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l methods -d 'Which methods count as pings' -r -f -a "any\t''
POST\t''"
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l manual-resume -d 'Whether a paused check ignores pings' -r -f -a "true\t''
false\t''"
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l start-kw -d 'Keywords that mean a start, with commas between them' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l success-kw -d 'Keywords that mean a success, with commas between them' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l failure-kw -d 'Keywords that mean a failure, with commas between them' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l filter-subject -d 'Whether keywords are looked for in the subjects of mails' -r -f -a "true\t''
false\t''"
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l filter-body -d 'Whether keywords are looked for in the texts of mails' -r -f -a "true\t''
false\t''"
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l filter-http-body -d 'Whether keywords are looked for in the bodies of HTTP pings' -r -f -a "true\t''
false\t''"
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l filter-default-fail -d 'Whether a ping without any keyword is a failure; otherwise it is ignored' -r -f -a "true\t''
false\t''"
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l channels -d 'Its channels: UUIDs or names with commas between them, * for all of the project, or nothing for none' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from create" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l name -d 'Its name' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l slug -d 'What ping URLs by slug name it by: a to z, 0 to 9, hyphens and underscores' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l tags -d 'Its tags, with spaces between them' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l desc -d 'Its description' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l timeout -d 'Time between two pings, in place of a schedule, in seconds or as in 15m, 2h or 1d [new checks: 86400]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l grace -d 'Time that a ping may be late, in seconds or as in 15m, 2h or 1d [new checks: 3600]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l schedule -d 'When pings are expected: a cron expression of five fields, or an OnCalendar expression of systemd' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l tz -d 'Time zone of the schedule, such as Europe/Riga [new checks: UTC]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l methods -d 'Which methods count as pings' -r -f -a "any\t''
POST\t''"
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l manual-resume -d 'Whether a paused check ignores pings' -r -f -a "true\t''
false\t''"
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l start-kw -d 'Keywords that mean a start, with commas between them' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l success-kw -d 'Keywords that mean a success, with commas between them' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l failure-kw -d 'Keywords that mean a failure, with commas between them' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l filter-subject -d 'Whether keywords are looked for in the subjects of mails' -r -f -a "true\t''
false\t''"
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l filter-body -d 'Whether keywords are looked for in the texts of mails' -r -f -a "true\t''
false\t''"
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l filter-http-body -d 'Whether keywords are looked for in the bodies of HTTP pings' -r -f -a "true\t''
false\t''"
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l filter-default-fail -d 'Whether a ping without any keyword is a failure; otherwise it is ignored' -r -f -a "true\t''
false\t''"
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l channels -d 'Its channels: UUIDs or names with commas between them, * for all of the project, or nothing for none' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from set" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from pause" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from pause" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from pause" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from pause" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from resume" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from resume" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from resume" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from resume" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from alerting" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from alerting" -l after -d 'Tell only after so many failures in a row; the status and pages show the first at once [new checks: 1]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from alerting" -l parent -d 'Check that it depends on, a router say: while that is down and told, it is not told that this one does not report; may be given several times, with commas in the variable; \'\' for none' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from alerting" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from alerting" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from alerting" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from alerting" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from delete" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from delete" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from delete" -l yes -d 'Do not ask. Without it a terminal is asked'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from delete" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from delete" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from pings" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from pings" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from pings" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from pings" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from pings" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from flips" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from flips" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from flips" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from flips" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from flips" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the checks'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show all of a check'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from help" -f -a "create" -d 'Make a check and print its UUID'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from help" -f -a "set" -d 'Change what is given of a check'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from help" -f -a "pause" -d 'Stop watching a check until it is pinged or resumed'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from help" -f -a "resume" -d 'Watch a paused check again from its next ping on'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from help" -f -a "alerting" -d 'Show when it is told that a check is down, and change that'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from help" -f -a "delete" -d 'Delete a check with its logs'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from help" -f -a "pings" -d 'List the pings of a check, newest first'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from help" -f -a "flips" -d 'List the changes of a check\'s status, newest first'
complete -c overdue -n "__fish_overdue_using_subcommand check; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand user; and not __fish_seen_subcommand_from create list passwd link set reset-totp delete sign-out help" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand user; and not __fish_seen_subcommand_from create list passwd link set reset-totp delete sign-out help" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand user; and not __fish_seen_subcommand_from create list passwd link set reset-totp delete sign-out help" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand user; and not __fish_seen_subcommand_from create list passwd link set reset-totp delete sign-out help" -f -a "create" -d 'Make a user; without a password it prints a link by which the user chooses one'
complete -c overdue -n "__fish_overdue_using_subcommand user; and not __fish_seen_subcommand_from create list passwd link set reset-totp delete sign-out help" -f -a "list" -d 'List the users'
complete -c overdue -n "__fish_overdue_using_subcommand user; and not __fish_seen_subcommand_from create list passwd link set reset-totp delete sign-out help" -f -a "passwd" -d 'Give a user another password, and end all its sessions'
complete -c overdue -n "__fish_overdue_using_subcommand user; and not __fish_seen_subcommand_from create list passwd link set reset-totp delete sign-out help" -f -a "link" -d 'Print a link by which a user chooses its password; without a name one for the first owner, while there is no user'
complete -c overdue -n "__fish_overdue_using_subcommand user; and not __fish_seen_subcommand_from create list passwd link set reset-totp delete sign-out help" -f -a "set" -d 'Change a user'
complete -c overdue -n "__fish_overdue_using_subcommand user; and not __fish_seen_subcommand_from create list passwd link set reset-totp delete sign-out help" -f -a "reset-totp" -d 'Take a user\'s second factor away, as when its app and its recovery codes are lost; its password alone signs in then'
complete -c overdue -n "__fish_overdue_using_subcommand user; and not __fish_seen_subcommand_from create list passwd link set reset-totp delete sign-out help" -f -a "delete" -d 'Delete a user'
complete -c overdue -n "__fish_overdue_using_subcommand user; and not __fish_seen_subcommand_from create list passwd link set reset-totp delete sign-out help" -f -a "sign-out" -d 'End all sessions of a user'
complete -c overdue -n "__fish_overdue_using_subcommand user; and not __fish_seen_subcommand_from create list passwd link set reset-totp delete sign-out help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from create" -l member -d 'Name or UUID of a project that it may change; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from create" -l read-only -d 'Name or UUID of a project that it may look at; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from create" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from create" -l owner -d 'It may do everything, in every project'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from create" -l password-stdin -d 'Read its password from the first line of standard input: at least 10 characters'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from create" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from create" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from list" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from list" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from passwd" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from passwd" -l password-stdin -d 'Read its password from the first line of standard input: at least 10 characters'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from passwd" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from passwd" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from link" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from link" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from link" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from link" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from set" -l name -d 'Its new name' -r
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from set" -l member -d 'Name or UUID of a project that it may change; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from set" -l read-only -d 'Name or UUID of a project that it may look at; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from set" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from set" -l owner -d 'It may do everything, in every project'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from set" -l disable -d 'Let it sign in no more, and end all its sessions'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from set" -l enable -d 'Let it sign in again'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from set" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from reset-totp" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from reset-totp" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from reset-totp" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from delete" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from delete" -l yes -d 'Do not ask. Without it a terminal is asked'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from delete" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from delete" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from sign-out" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from sign-out" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from sign-out" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "create" -d 'Make a user; without a password it prints a link by which the user chooses one'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the users'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "passwd" -d 'Give a user another password, and end all its sessions'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "link" -d 'Print a link by which a user chooses its password; without a name one for the first owner, while there is no user'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "set" -d 'Change a user'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "reset-totp" -d 'Take a user\'s second factor away, as when its app and its recovery codes are lost; its password alone signs in then'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "delete" -d 'Delete a user'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "sign-out" -d 'End all sessions of a user'
complete -c overdue -n "__fish_overdue_using_subcommand user; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand window; and not __fish_seen_subcommand_from create list delete help" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand window; and not __fish_seen_subcommand_from create list delete help" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand window; and not __fish_seen_subcommand_from create list delete help" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand window; and not __fish_seen_subcommand_from create list delete help" -f -a "create" -d 'Make a maintenance window and print its UUID. Who goes down in it is told when it closes, if still down'
complete -c overdue -n "__fish_overdue_using_subcommand window; and not __fish_seen_subcommand_from create list delete help" -f -a "list" -d 'List the maintenance windows'
complete -c overdue -n "__fish_overdue_using_subcommand window; and not __fish_seen_subcommand_from create list delete help" -f -a "delete" -d 'Delete a maintenance window. What it held back is told'
complete -c overdue -n "__fish_overdue_using_subcommand window; and not __fish_seen_subcommand_from create list delete help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from create" -l project -d 'Name or UUID of its project [default: the only one there is]' -r
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from create" -l tag -d 'Tag that a check must have to be meant; may be given several times, with commas in the variable [default: all checks]' -r
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from create" -l at -d 'When it opens, again and again: a cron expression of five fields, or an OnCalendar expression of systemd' -r
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from create" -l tz -d 'Time zone of --at, such as Europe/Riga [default: UTC]' -r
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from create" -l from -d 'When it opens, once: 2026-11-20T10:00:00+00:00' -r
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from create" -l to -d 'When it closes' -r
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from create" -l for -d 'For how long it is open: 90m, 2h or 1d' -r
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from create" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from create" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from create" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from create" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from list" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from list" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from list" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from delete" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from delete" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from delete" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from delete" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from help" -f -a "create" -d 'Make a maintenance window and print its UUID. Who goes down in it is told when it closes, if still down'
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the maintenance windows'
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from help" -f -a "delete" -d 'Delete a maintenance window. What it held back is told'
complete -c overdue -n "__fish_overdue_using_subcommand window; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand mute" -l project -d 'Name or UUID of its project [default: the only one there is]' -r
complete -c overdue -n "__fish_overdue_using_subcommand mute" -l tag -d 'Tag that a check must have to be meant; may be given several times, with commas in the variable [default: all checks]' -r
complete -c overdue -n "__fish_overdue_using_subcommand mute" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand mute" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand mute" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand mute" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and not __fish_seen_subcommand_from retry help" -l project -d 'Name or UUID of the project to look in [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and not __fish_seen_subcommand_from retry help" -l channel -d 'UUID or name of the channel [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and not __fish_seen_subcommand_from retry help" -l check -d 'UUID, slug or name of the check [default: all]' -r
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and not __fish_seen_subcommand_from retry help" -l limit -d 'How many to show at most' -r
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and not __fish_seen_subcommand_from retry help" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and not __fish_seen_subcommand_from retry help" -l failed -d 'Show only what was given up'
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and not __fish_seen_subcommand_from retry help" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and not __fish_seen_subcommand_from retry help" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and not __fish_seen_subcommand_from retry help" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and not __fish_seen_subcommand_from retry help" -f -a "retry" -d 'Have sent again what failed. People are told only what is true now, so nothing of a check that has changed since'
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and not __fish_seen_subcommand_from retry help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and __fish_seen_subcommand_from retry" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and __fish_seen_subcommand_from retry" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and __fish_seen_subcommand_from retry" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and __fish_seen_subcommand_from retry" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and __fish_seen_subcommand_from help" -f -a "retry" -d 'Have sent again what failed. People are told only what is true now, so nothing of a check that has changed since'
complete -c overdue -n "__fish_overdue_using_subcommand deliveries; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand schedule" -l tz -d 'Time zone of the schedule, such as Europe/Riga [default: UTC]' -r
complete -c overdue -n "__fish_overdue_using_subcommand schedule" -l from -d 'Time after which to look, such as 2027-01-31T08:00:00+02:00 [default: now]' -r
complete -c overdue -n "__fish_overdue_using_subcommand schedule" -l count -d 'How many occurrences to show at most' -r
complete -c overdue -n "__fish_overdue_using_subcommand schedule" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand schedule" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand schedule" -l batch -d 'Answer JSON lines {"expr","tz","start"} on standard input, one by one'
complete -c overdue -n "__fish_overdue_using_subcommand schedule" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand schedule" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand export" -l project -d 'Name or UUID of the project to write [default: all, and users]' -r
complete -c overdue -n "__fish_overdue_using_subcommand export" -l format -d 'In which form [default: that of the ending of FILE, .toml, .json or .jsonl, else toml]' -r -f -a "toml\t'For people; what `apply` reads'
json\t'The same for programs'
jsonl\t'Everything as it is, as lines of JSON for another server: keys, users, statuses and secrets too'"
complete -c overdue -n "__fish_overdue_using_subcommand export" -l logs -d 'Write logs too, pings with their bodies and flips, which jsonl alone can hold; none: no logs' -r -f -a "all\t''
none\t''"
complete -c overdue -n "__fish_overdue_using_subcommand export" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand export" -l secrets -d 'Write secrets in the clear, in place of names of variables'
complete -c overdue -n "__fish_overdue_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c overdue -n "__fish_overdue_using_subcommand export" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand diff" -l prune -d 'Delete what the source of the files made and no longer names, at most 10 objects unless a number is given' -r
complete -c overdue -n "__fish_overdue_using_subcommand diff" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand diff" -l adopt -d 'Change also what nobody\'s file made, and own it from then on'
complete -c overdue -n "__fish_overdue_using_subcommand diff" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand diff" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand diff" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand apply" -l prune -d 'Delete what the source of the files made and no longer names, at most 10 objects unless a number is given' -r
complete -c overdue -n "__fish_overdue_using_subcommand apply" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand apply" -l adopt -d 'Change also what nobody\'s file made, and own it from then on'
complete -c overdue -n "__fish_overdue_using_subcommand apply" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand apply" -l check-only -l check -d 'Only read the files and say what is wrong in them: no database is needed'
complete -c overdue -n "__fish_overdue_using_subcommand apply" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand apply" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand discover" -l base-url -d 'URL under which the server is reached [default: that of a server on this machine]' -r
complete -c overdue -n "__fish_overdue_using_subcommand discover" -l project -d 'Name of the project that the checks are to belong to' -r
complete -c overdue -n "__fish_overdue_using_subcommand discover" -l crontab -d 'Read this crontab in place of all that the machine has; may be given several times, with commas in the variable' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand discover" -l with -d 'What jobs report with: curl behind the job, or overdue run, which also sends the start and the output' -r -f -a "curl\t''
run\t''"
complete -c overdue -n "__fish_overdue_using_subcommand discover" -l host -d 'What slugs begin with [default: the name of this machine]' -r
complete -c overdue -n "__fish_overdue_using_subcommand discover" -l time-zone -d 'Time zone of schedules that name none [default: the machine\'s]' -r
complete -c overdue -n "__fish_overdue_using_subcommand discover" -l write -d 'Write overdue.toml, overdue.patch and an edited crontab into this directory, to which nobody else may write' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand discover" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand discover" -l user-column -d 'In these crontabs a user stands before each command, as in /etc/crontab'
complete -c overdue -n "__fish_overdue_using_subcommand discover" -l all -d 'Make checks also of timers that came with the distribution'
complete -c overdue -n "__fish_overdue_using_subcommand discover" -l run-parts -d 'Make one check of each directory of jobs, such as /etc/cron.daily'
complete -c overdue -n "__fish_overdue_using_subcommand discover" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand discover" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand discover" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand import; and not __fish_seen_subcommand_from healthchecks overdue list abandon help" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand import; and not __fish_seen_subcommand_from healthchecks overdue list abandon help" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand import; and not __fish_seen_subcommand_from healthchecks overdue list abandon help" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand import; and not __fish_seen_subcommand_from healthchecks overdue list abandon help" -f -a "healthchecks" -d 'From a Healthchecks: its SQLite file, or what pg_dump or manage.py dumpdata writes'
complete -c overdue -n "__fish_overdue_using_subcommand import; and not __fish_seen_subcommand_from healthchecks overdue list abandon help" -f -a "overdue" -d 'From another overdue: what its `export --format jsonl` writes'
complete -c overdue -n "__fish_overdue_using_subcommand import; and not __fish_seen_subcommand_from healthchecks overdue list abandon help" -f -a "list" -d 'List the imports that are under way, and the projects that are on trial'
complete -c overdue -n "__fish_overdue_using_subcommand import; and not __fish_seen_subcommand_from healthchecks overdue list abandon help" -f -a "abandon" -d 'End an import that is under way: nothing of it is kept'
complete -c overdue -n "__fish_overdue_using_subcommand import; and not __fish_seen_subcommand_from healthchecks overdue list abandon help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l project -d 'Take only the project of this name or UUID, under another name if one is given; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l skip -d 'Leave behind the check of this name, slug or UUID; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l tz -d 'Read one name of a time zone as another, where it is unknown here; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l logs -d 'Which pings come along: all with their bodies, all without, or none [default: all; of an API heads, since each body is a request]' -r -f -a "all\t''
heads\t''
none\t''"
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l env-file -d 'File with the variables of the old server, as compose files have it: its SECRET_KEY, and tokens that belong to channels here' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l secret-key-file -d 'File with the SECRET_KEY of the old server alone' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l api -d 'Address of a server whose API is read in place of a file, for whoever has none: it tells less. Name the project with --project' -r
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l key-file -d 'File with an API key of the project that may write; it will work here' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l read-only-key-file -d 'File with its read-only API key, which is to work here too' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l ping-key-file -d 'File with its ping key' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l outbound-proxy -d 'Proxy that leads to it: http://HOST:PORT, socks5://HOST:PORT, or none [default: what HTTPS_PROXY, HTTP_PROXY, ALL_PROXY say]; NO_PROXY names exceptions' -r
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l ca-file -d 'PEM file of certificate authorities to trust besides the system\'s' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l dry-run -d 'Show what would become of everything, and change nothing'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l trial -d 'Bring everything here, but tell nobody: projects are served and pinged, and go down in silence until they are released'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l live -d 'Bring everything here, and tell from now on'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l replace -d 'Take the place of projects whose checks were pinged or changed here since the last import, too: what was done and logged is lost'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l yes -d 'Do not ask whether that is meant; needed where nobody can be asked'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -l users -d 'Bring users along, with their passwords where those can be taken over'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from healthchecks" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from overdue" -l project -d 'Take only the project of this name or UUID, under another name if one is given; may be given several times, with commas in the variable' -r
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from overdue" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from overdue" -l dry-run -d 'Show what would become of everything, and change nothing'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from overdue" -l trial -d 'Bring everything here, but tell nobody: projects are served and pinged, and go down in silence until they are released'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from overdue" -l live -d 'Bring everything here, and tell from now on'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from overdue" -l replace -d 'Take the place of projects whose checks were pinged or changed here since the last import, too: what was done and logged is lost'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from overdue" -l yes -d 'Do not ask whether that is meant; needed where nobody can be asked'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from overdue" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from overdue" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from overdue" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from list" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from list" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from list" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from abandon" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from abandon" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from abandon" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from help" -f -a "healthchecks" -d 'From a Healthchecks: its SQLite file, or what pg_dump or manage.py dumpdata writes'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from help" -f -a "overdue" -d 'From another overdue: what its `export --format jsonl` writes'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from help" -f -a "list" -d 'List the imports that are under way, and the projects that are on trial'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from help" -f -a "abandon" -d 'End an import that is under way: nothing of it is kept'
complete -c overdue -n "__fish_overdue_using_subcommand import; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand schema" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand schema" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand schema" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand run" -l timeout -d 'Time after which the job is asked to end (SIGTERM), in seconds or as in 5m or 2h, which is reported as a failure [default: never]' -r
complete -c overdue -n "__fish_overdue_using_subcommand run" -l kill-after -d 'Time after that until it is killed (SIGKILL)' -r
complete -c overdue -n "__fish_overdue_using_subcommand run" -l spool -d 'Directory in which a ping waits when the server cannot be reached; the next run delivers it' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand run" -l deliver-within -d 'Time for which the last ping is tried, in seconds or as in 5m' -r
complete -c overdue -n "__fish_overdue_using_subcommand run" -l ca-file -d 'PEM file of certificate authorities to trust besides the system\'s' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand run" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand run" -l no-output -d 'Send nothing of the job\'s output'
complete -c overdue -n "__fish_overdue_using_subcommand run" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand run" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand ping" -l action -d 'What the ping says: start, fail, log, or an exit status from 0 to 255 [default: what the URL says]' -r
complete -c overdue -n "__fish_overdue_using_subcommand ping" -l rid -d 'Run id, the same for the start of a job and its end' -r
complete -c overdue -n "__fish_overdue_using_subcommand ping" -l body-file -d 'File whose content is sent as the body; - for standard input' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand ping" -l spool -d 'Directory in which a ping waits when the server cannot be reached; the next run delivers it' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand ping" -l deliver-within -d 'Time for which the last ping is tried, in seconds or as in 5m' -r
complete -c overdue -n "__fish_overdue_using_subcommand ping" -l ca-file -d 'PEM file of certificate authorities to trust besides the system\'s' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand ping" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand ping" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand ping" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand backup" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand backup" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand backup" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand restore" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand restore" -l force -d 'Replace the database that is there'
complete -c overdue -n "__fish_overdue_using_subcommand restore" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand restore" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand verify" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand verify" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand verify" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand verify" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand compact" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand compact" -l json -d 'Print JSON'
complete -c overdue -n "__fish_overdue_using_subcommand compact" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand compact" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand health" -l listen -d 'Address and port that the server takes HTTP requests on; may be given several times, with commas in the variable: the first counts' -r
complete -c overdue -n "__fish_overdue_using_subcommand health" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand health" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand health" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand completions" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand completions" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand completions" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand man" -l data -d 'Data directory [default: $STATE_DIRECTORY, else $XDG_STATE_HOME/overdue, else ~/.local/state/overdue]' -r -F
complete -c overdue -n "__fish_overdue_using_subcommand man" -s h -l help -d 'Print help'
complete -c overdue -n "__fish_overdue_using_subcommand man" -s V -l version -d 'Print version'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "serve" -d 'Run the server'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "project" -d 'Make, list, change and delete projects'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "key" -d 'Make, list and revoke API keys and ping keys'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "channel" -d 'Make, list, test, change and delete notification channels, and assign checks to them'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "check" -d 'Make, list, change, pause and delete checks, and show their pings and flips'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "user" -d 'Make, list, change and delete users of the dashboard, and print the links by which they choose their passwords'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "window" -d 'Make, list and delete maintenance windows'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "mute" -d 'Silence alerts for a duration; checks that are still down afterwards alert then'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "deliveries" -d 'List alerts with their results, newest first, or send a failed one again'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "schedule" -d 'Show when a schedule expects its job to run'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "export" -d 'Export the configuration as a file for `apply`, or everything with logs as lines for `import overdue`'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "diff" -d 'Show the changes that `apply` would make; the exit status is 3 if there are any'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "apply" -d 'Apply configuration files atomically'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "discover" -d 'Find jobs in crontabs and timers, and propose a check for each, with the edit that makes it report. Nothing is edited'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "import" -d 'Import data from another program, or preview the import. The source is not modified'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "schema" -d 'Print the JSON Schema of configuration files, for editors'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "run" -d 'Run a job and report its start, its exit status and the end of its output'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "ping" -d 'Send a ping'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "backup" -d 'Back up the database to a file, also while a server runs'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "restore" -d 'Restore a backup into the data directory, while no server runs'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "verify" -d 'Check that the database, or a backup, can be read completely, and show what takes space in it'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "compact" -d 'Give back the disk space that the database no longer uses, while no server runs'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "health" -d 'Check that the server on this machine takes pings; the exit status is 0 if it does'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "completions" -d 'Print the completion script for a shell'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "man" -d 'Write the manual pages into a directory'
complete -c overdue -n "__fish_overdue_using_subcommand help; and not __fish_seen_subcommand_from serve project key channel check user window mute deliveries schedule export diff apply discover import schema run ping backup restore verify compact health completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "create" -d 'Make a project and print its UUID'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "list" -d 'List the projects'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "rename" -d 'Give a project another name'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "delete" -d 'Delete a project with its checks, keys and channels'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "release" -d 'End the trial of a project that was imported: from now on it tells. What is down and was not told where it came from is told'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from project" -f -a "set" -d 'Change the limits of a project'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "create" -d 'Make a key and print it; an API key is stored hashed and never shown again'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "list" -d 'List the keys, without the keys themselves'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from key" -f -a "revoke" -d 'Revoke a key at once'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "create" -d 'Make a channel and print its UUID'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "list" -d 'List the channels, and show which do not work'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "rename" -d 'Give a channel another name'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "set" -d 'Give a channel other settings, in place of all that it had or beside them'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "test" -d 'Send a test to a channel, or to each channel of a group, and say what came of it; one that arrives enables the channel'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "enable" -d 'Enable a channel'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "disable" -d 'Disable a channel; alerts that wait for it are skipped'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "assign" -d 'Notify a channel about checks'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "unassign" -d 'Stop notifying a channel about checks'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "delete" -d 'Delete a channel; checks are no longer assigned to it'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from channel" -f -a "kinds" -d 'Show what kinds of channel there are and what can be set'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from check" -f -a "list" -d 'List the checks'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from check" -f -a "show" -d 'Show all of a check'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from check" -f -a "create" -d 'Make a check and print its UUID'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from check" -f -a "set" -d 'Change what is given of a check'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from check" -f -a "pause" -d 'Stop watching a check until it is pinged or resumed'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from check" -f -a "resume" -d 'Watch a paused check again from its next ping on'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from check" -f -a "alerting" -d 'Show when it is told that a check is down, and change that'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from check" -f -a "delete" -d 'Delete a check with its logs'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from check" -f -a "pings" -d 'List the pings of a check, newest first'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from check" -f -a "flips" -d 'List the changes of a check\'s status, newest first'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "create" -d 'Make a user; without a password it prints a link by which the user chooses one'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "list" -d 'List the users'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "passwd" -d 'Give a user another password, and end all its sessions'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "link" -d 'Print a link by which a user chooses its password; without a name one for the first owner, while there is no user'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "set" -d 'Change a user'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "reset-totp" -d 'Take a user\'s second factor away, as when its app and its recovery codes are lost; its password alone signs in then'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "delete" -d 'Delete a user'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from user" -f -a "sign-out" -d 'End all sessions of a user'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from window" -f -a "create" -d 'Make a maintenance window and print its UUID. Who goes down in it is told when it closes, if still down'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from window" -f -a "list" -d 'List the maintenance windows'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from window" -f -a "delete" -d 'Delete a maintenance window. What it held back is told'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from deliveries" -f -a "retry" -d 'Have sent again what failed. People are told only what is true now, so nothing of a check that has changed since'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from import" -f -a "healthchecks" -d 'From a Healthchecks: its SQLite file, or what pg_dump or manage.py dumpdata writes'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from import" -f -a "overdue" -d 'From another overdue: what its `export --format jsonl` writes'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from import" -f -a "list" -d 'List the imports that are under way, and the projects that are on trial'
complete -c overdue -n "__fish_overdue_using_subcommand help; and __fish_seen_subcommand_from import" -f -a "abandon" -d 'End an import that is under way: nothing of it is kept'
