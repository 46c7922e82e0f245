%% Erlang's side of the rows. Run as: erl +S 1:1 -noshell -run greenroom_peer main WORK N
%% Every work prints one line of JSON. The clock runs inside the emulator and only around the work:
%% each work sets itself up and returns the fun to be timed.
-module(greenroom_peer).
-export([main/1]).

main([Work, Size]) ->
    N = list_to_integer(Size),
    try value(Work, N) of
        Value -> io:format("{\"value\": ~p}~n", [float(Value)]), halt(0)
    catch
        Class:Reason ->
            io:format(standard_error, "~p: ~p~n", [Class, Reason]), halt(1)
    end.

value("pingpong", N) -> rate(pingpong(N));
value("ring", N)     -> rate(ring(1000, 100, N));
value("flood", N)    -> rate(flood(N));
value("spawn", N)    -> rate(spawn_and_stop(N));
value("call", N)     -> rate(calls(N));
value("idle", N)     -> bytes_per_idle_process(N).

%% The fun returns how many messages (or processes, or calls) it went through.
rate(Work) ->
    Start = erlang:monotonic_time(nanosecond),
    Count = Work(),
    Count * 1.0e9 / (erlang:monotonic_time(nanosecond) - Start).

%% Two processes, each with its own counter; the one that stands at zero ends the game.
pingpong(N) ->
    Referee = self(),
    A = spawn_link(fun() -> receive {peer, Peer} -> player(Peer, N div 2, Referee) end end),
    B = spawn_link(fun() -> player(A, N div 2, Referee) end),
    A ! {peer, B},
    fun() ->
        A ! 1,
        receive over -> 2 * (N div 2) + 1 end
    end.

player(Peer, Left, Referee) ->
    receive
        Message when Left > 0 ->
            Peer ! Message,
            player(Peer, Left - 1, Referee);
        _ ->
            Referee ! over
    end.

%% Tokens start evenly spread; each hop takes one off its token.
ring(Size, Tokens, N) ->
    Referee = self(),
    Nodes = [spawn_link(fun() -> receive {next, Next} -> node_of(Next, Referee) end end)
             || _ <- lists:seq(1, Size)],
    lists:foreach(fun({Node, Next}) -> Node ! {next, Next} end,
                  lists:zip(Nodes, tl(Nodes) ++ [hd(Nodes)])),
    Hops = N div Tokens,
    Places = list_to_tuple(Nodes),
    fun() ->
        lists:foreach(fun(I) -> element(I * Size div Tokens + 1, Places) ! Hops end,
                      lists:seq(0, Tokens - 1)),
        await(Tokens),
        Tokens * (Hops + 1)
    end.

node_of(Next, Referee) ->
    receive
        0 -> Referee ! over, node_of(Next, Referee);
        Token -> Next ! Token - 1, node_of(Next, Referee)
    end.

await(0) -> ok;
await(N) -> receive over -> await(N - 1) end.

flood(N) ->
    Referee = self(),
    Sink = spawn_link(fun() -> sink(Referee) end),
    fun() ->
        spawn_link(fun() -> pour(Sink, N) end),
        receive over -> N end
    end.

pour(Sink, 0) -> Sink ! last;
pour(Sink, N) -> Sink ! N, pour(Sink, N - 1).

%% Does nothing with what reaches it.
sink(Referee) -> receive last -> Referee ! over; _ -> sink(Referee) end.

%% Spawned and told in batches; a process ends after its one message.
spawn_and_stop(N) ->
    Batch = 1000,
    Handled = counters:new(1, []),
    fun() ->
        batches(N div Batch, Batch, Handled),
        counters:get(Handled, 1)
    end.

batches(0, _, _) -> ok;
batches(Left, Size, Handled) ->
    Before = counters:get(Handled, 1),
    Pids = [spawn(fun() -> receive _ -> counters:add(Handled, 1, 1) end end)
            || _ <- lists:seq(1, Size)],
    lists:foreach(fun(Pid) -> Pid ! 1 end, Pids),
    await_handled(Handled, Before + Size),
    batches(Left - 1, Size, Handled).

await_handled(Handled, Goal) ->
    case counters:get(Handled, 1) of
        Goal -> ok;
        _ -> erlang:yield(), await_handled(Handled, Goal)
    end.

%% A call as gen_server makes it: monitor, request, reply or 'DOWN', demonitor.
calls(N) ->
    Referee = self(),
    Server = spawn_link(fun serve/0),
    fun() ->
        spawn_link(fun() -> call_repeatedly(Server, N), Referee ! over end),
        receive over -> N end
    end.

serve() ->
    receive {call, {From, Tag}, Request} -> From ! {Tag, Request}, serve() end.

call_repeatedly(_, 0) -> ok;
call_repeatedly(Server, N) ->
    N = call(Server, N),
    call_repeatedly(Server, N - 1).

call(Server, Request) ->
    Tag = erlang:monitor(process, Server),
    Server ! {call, {self(), Tag}, Request},
    receive
        {Tag, Reply} -> erlang:demonitor(Tag, [flush]), Reply;
        {'DOWN', Tag, process, _, Reason} -> exit(Reason)
    end.

%% Each process has handled one message and holds one counter.
bytes_per_idle_process(N) ->
    Handled = counters:new(1, []),
    erlang:garbage_collect(),
    Before = resident_bytes(),
    idle_batches(N div 1000, Handled),
    await_handled(Handled, (N div 1000) * 1000),
    (resident_bytes() - Before) / ((N div 1000) * 1000).

idle_batches(0, _) -> ok;
idle_batches(Left, Handled) ->
    lists:foreach(fun(_) -> spawn(fun() -> idle(0, Handled) end) ! 1 end, lists:seq(1, 1000)),
    erlang:yield(),
    idle_batches(Left - 1, Handled).

idle(Count, Handled) ->
    receive _ -> counters:add(Handled, 1, 1), idle(Count + 1, Handled) end.

resident_bytes() ->
    {ok, Status} = file:read_file("/proc/self/status"),
    {match, [Kilobytes]} = re:run(Status, "VmRSS:\\s+(\\d+) kB", [{capture, [1], list}]),
    list_to_integer(Kilobytes) * 1024.
