package events

// table has a row for each kind, in the order of the reference page. A text says what happened, the
// consequence, and what to do where something is to be done.
var table = []Spec{
	{
		Kind: NodeStarted, Severity: Info, About: AboutNode, Attributes: []string{"version"},
		Text: "Node {node} started[ with version {version}] and serves clients",
	},
	{
		Kind: NodeJoined, Severity: Info, About: AboutNode, Name: "member", Attributes: []string{"peer"},
		Text: "Node {member} joined the tier; a part of the keys moves to it",
	},
	{
		Kind: NodeDraining, Severity: Info, About: AboutNode, Name: "member",
		Text: "Node {member} is draining: it hands over its keys, closes its streams, and exits",
	},
	{
		Kind: NodeLeft, Severity: Info, About: AboutNode, Name: "member", Attributes: []string{"peer"},
		Text: "Node {member} drained and left the tier; other nodes own its keys",
	},
	{
		Kind: NodeDisappeared, Severity: Error, About: AboutNode, Name: "member", Attributes: []string{"peer", "error"},
		Text: "Node {member} disappeared without draining[: {error}]; its keys move to other nodes, and its clients reconnect; check the node and its network",
	},
	{
		Kind: NodeNameConflict, Severity: Error, About: AboutNode, Name: "name", Attributes: []string{"peer"},
		Text: "Two nodes have the name {name}; the older one owns no keys; set another node.name on one of them",
	},
	{
		Kind: NodeCutOff, Severity: Error, About: AboutNode,
		Text: "Node {node} cannot reach the control plane; its keys move to nodes that can; check the network of the node if other nodes reach it",
	},
	{
		Kind: NodeReconnected, Severity: Info, About: AboutNode,
		Text: "Node {node} reaches the control plane again; a part of the keys moves back to it",
	},
	{
		Kind: NodeNearLimit, Severity: Warning, About: AboutNode, Attributes: []string{"percent", "used", "limit"},
		Text: "Memory of node {node} is near its limit ({percent} %); the node refuses new streams and empties caches; add nodes or memory",
	},
	{
		Kind: NodeBelowLimit, Severity: Info, About: AboutNode, Attributes: []string{"percent"},
		Text: "Memory of node {node} is below its limit again; the node accepts new streams",
	},
	{
		Kind: ControlPlaneLost, Severity: Error, About: AboutControlPlane, Name: "address", Attributes: []string{"origin", "keys", "error"},
		Text: "Control plane {address} has no stream from the relay[: {error}]; clients keep their last configuration; the relay retries with backoff",
	},
	{
		Kind: ControlPlaneBack, Severity: Info, About: AboutControlPlane, Name: "address", Attributes: []string{"origin", "down_for"},
		Text: "Control plane {address} is reachable again[ after {down_for}]",
	},
	{
		Kind: StreamFailed, Severity: Warning, About: AboutControlPlane, Name: "address", Attributes: []string{"origin", "error"}, Same: []string{"error"},
		Text: "A stream to control plane {address} failed, others are up[: {error}]; the relay retries with backoff",
	},
	{
		Kind: ResponseRejected, Severity: Error, About: AboutControlPlane, Name: "address", Attributes: []string{"origin", "type", "error"}, Same: []string{"type", "error"},
		Text: "The relay rejected (NACK) a response of control plane {address} of type {type}: {error}; clients keep the previous configuration; fix the resource in the control plane",
	},
	{
		Kind: ConfigApplied, Severity: Info, About: AboutConfig, Attributes: []string{"fields"}, Same: []string{"fields"},
		Text: "A changed configuration is active: {fields}",
	},
	{
		Kind: ConfigRejected, Severity: Error, About: AboutConfig, Attributes: []string{"error"}, Same: []string{"error"},
		Text: "A changed configuration was rejected: {error}; the previous one stays active; fix the file",
	},
	{
		Kind: ConfigRestartRequired, Severity: Warning, About: AboutConfig, Attributes: []string{"fields"}, Same: []string{"fields"},
		Text: "Changed fields of the configuration require a restart: {fields}; the previous values stay active until then",
	},
	{
		Kind: ConfigMismatch, Severity: Warning, About: AboutNode, Name: "member", Attributes: []string{"differs_from", "sections"}, Same: []string{"sections"},
		Text: "Node {member} has a config mismatch with node {differs_from} in {sections}; clients may get another key there; use the same configuration on all nodes",
	},
	{
		Kind: ConfigMismatchResolved, Severity: Info, About: AboutNode, Name: "member",
		Text: "Node {member} no longer has a config mismatch, or left the tier",
	},
	{
		Kind: OwnerMoved, Severity: Info, About: AboutKey, Name: "key", Attributes: []string{"from", "to"}, Same: []string{"from", "to"}, Combining: PerSharedKeys,
		Text: "{keys|key} moved from node {from} to node {to}",
	},
	{
		Kind: RedisLost, Severity: Error, About: AboutRedis, Attributes: []string{"error"},
		Text: "Redis is unreachable[: {error}]; clients are not affected; nodes keep their last list of nodes; check Redis and the network",
	},
	{
		Kind: RedisDenied, Severity: Error, About: AboutRedis, Attributes: []string{"problem", "hint", "error"}, Same: []string{"problem"},
		Text: "Redis rejects the relay[: {problem}]; clients are not affected[; {hint}]",
	},
	{
		Kind: RedisBack, Severity: Info, About: AboutRedis,
		Text: "Redis is reachable again",
	},
	{
		Kind: RedisRefuses, Severity: Error, About: AboutRedis, Attributes: []string{"call", "problem", "hint", "error"}, Same: []string{"call"},
		Text: "Redis refuses the operation {call}: {error}; clients are not affected; check the state and the access control list of Redis",
	},
	{
		Kind: RedisAccepts, Severity: Info, About: AboutRedis, Attributes: []string{"call"}, Same: []string{"call"},
		Text: "Redis accepts the operation {call} again",
	},
	{
		Kind: GuardEngaged, Severity: Error, About: AboutKey, Name: "key", Attributes: []string{"type", "origin", "removals", "of", "hold"},
		Same: []string{"type", "origin"}, Combining: PerKeys, Sums: []string{"removals", "of"},
		Text: "The removal guard holds back {removals|removal} of {of|resource} of {keys|key}; check the control plane; approve the removals with 'xdsrelay removals approve KEY'",
	},
	{
		Kind: RolloutStarted, Severity: Info, About: AboutKey, Name: "key", Attributes: []string{"revision"}, Combining: PerKeys,
		Text: "A rollout of {keys|key} started",
	},
	{
		Kind: RolloutFailed, Severity: Error, About: AboutKey, Name: "key", Attributes: []string{"revision", "canaries", "reason"}, Combining: PerKeys, Sums: []string{"canaries"},
		Text: "A rollout of {keys|key} failed after {canaries|client} had the new revision; see 'xdsrelay rollout status KEY'",
	},
	{
		Kind: RolloutPromoted, Severity: Info, About: AboutKey, Name: "key", Attributes: []string{"revision"}, Combining: PerKeys,
		Text: "A rollout released a revision of {keys|key} to all clients",
	},
	{
		Kind: GuardApproved, Severity: Info, About: AboutKey, Name: "key", Attributes: []string{"removals"}, Combining: PerKeys, Sums: []string{"removals"},
		Text: "An operator approved {removals|held removal} of {keys|key}; clients lose these resources",
	},
	{
		Kind: GuardExpired, Severity: Warning, About: AboutKey, Name: "key", Attributes: []string{"removals"}, Combining: PerKeys, Sums: []string{"removals"},
		Text: "The hold of the removal guard ended: {removals|held removal} of {keys|key} took effect; clients lose these resources",
	},
	{
		Kind: MassRemoval, Severity: Warning, About: AboutKey, Name: "key", Attributes: []string{"type", "origin", "removals", "of"},
		Same: []string{"type", "origin"}, Combining: PerKeys, Sums: []string{"removals", "of"},
		Text: "The control plane removed {removals} of {of|resource} of {keys|key}, and clients follow; removal_guard.max_percent would hold such removals back",
	},
	{
		Kind: LastGoodNotStored, Severity: Warning, About: AboutKey, Name: "key", Attributes: []string{"type", "reason"}, Same: []string{"reason"}, Combining: PerKeys,
		Text: "A type of {keys|key} is not stored as last known good: {reason}; a node that starts without the control plane lacks it",
	},
	{
		Kind: CertificateReloaded, Severity: Info, About: AboutFile, Name: "from", Attributes: []string{"subject", "names", "not_after"}, Same: []string{"not_after"},
		Text: "A certificate was reloaded from {from}; it is valid until {not_after}",
	},
	{
		Kind: CertificateExpiring, Severity: Warning, About: AboutNode, Attributes: []string{"use", "until"},
		Text: "The certificate of node {node} for {use} expires at {until} and has not been renewed; renew it",
	},
	{
		Kind: CertificateExpired, Severity: Error, About: AboutNode, Attributes: []string{"use", "until"},
		Text: "The certificate of node {node} for {use} has expired; connections that verify it fail; renew it",
	},
	{
		Kind: TrustReloaded, Severity: Info, About: AboutFile, Name: "from",
		Text: "The trusted authorities of {from} changed; connected clients are checked again",
	},
	{
		Kind: FilesUnusable, Severity: Error, About: AboutFile, Name: "files", Attributes: []string{"error"},
		Text: "Changed files cannot be used: {error}; the previous content stays active; fix {files}",
	},
	{
		Kind: FilesUsable, Severity: Info, About: AboutFile, Name: "files",
		Text: "The files {files} are usable again",
	},
	{
		Kind: ClientsShed, Severity: Warning, About: AboutClients, Attributes: []string{"clients", "percent"},
		Text: "Node {node} shed {clients|client} with the highest memory use because memory is near its limit; add nodes or memory",
	},
	{
		Kind: ClientsRebalanced, Severity: Info, About: AboutClients, Attributes: []string{"clients", "surplus", "nodes", "all_clients"},
		Text: "Node {node} moves {surplus|client} to other nodes, which have fewer",
	},
	{
		Kind: ClientsRejected, Severity: Warning, About: AboutClients, Attributes: []string{"limit", "code", "reason", "peer"},
		Text: "Node {node} rejects clients, such as {peer}[ (code {code})]: {reason}",
	},
	{
		Kind: ClientsUnauthorized, Severity: Warning, About: AboutClients, Attributes: []string{"rule", "reason", "identity", "peer"},
		Text: "Node {node} rejects clients without authorization, such as {peer}[ ({identity})]: {reason}",
	},
	{
		Kind: ResponseTooLarge, Severity: Error, About: AboutClients, Attributes: []string{"type", "bytes", "limit"},
		Text: "Node {node} sent a response of type {type} with {bytes} bytes, more than limits.max_response_size; most clients reject it; use the delta variant, or fewer resources per key",
	},
	{
		Kind: PeersRejected, Severity: Warning, About: AboutNode, Attributes: []string{"peer"},
		Text: "Node {node} rejected a call of {peer} to its peer port without the token of the tier; if that is a node of the tier, compare tier.peer.token_file",
	},
	{
		Kind: ClockDiffers, Severity: Warning, About: AboutNode, Name: "member", Attributes: []string{"differs_from", "ahead"},
		Text: "The clock of node {member} differs from that of node {differs_from} by {ahead}; synchronize the clocks, for example with NTP",
	},
	{
		Kind: ClockAgrees, Severity: Info, About: AboutNode, Name: "member",
		Text: "The clock of node {member} no longer differs, or the node left the tier",
	},
	{
		Kind: WarningStarted, Severity: Warning, About: AboutWarning, Name: "warning", Attributes: []string{"text", "detail"},
		Text: "{text}",
	},
	{
		Kind: WarningEnded, Severity: Info, About: AboutWarning, Name: "warning", Attributes: []string{"text"},
		Text: "No longer: {text}",
	},
	{
		Kind: OperatorCommand, Severity: Info, About: AboutOrder, Name: "order", Attributes: []string{"parameters", "peer", "identity", "result"},
		Text: "An operator requested {order}[ with {parameters}] on node {node}: {result}",
	},
}
