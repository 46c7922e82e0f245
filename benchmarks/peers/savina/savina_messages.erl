%% Programs of many messages and few processes.
-module(savina_messages).
-export([ring/1, big/1, chameneos/1, philosophers/1, counting/1, throughput/1, circles/3]).
-import(savina, [draw/1, tally/2]).

%% ring: a hundred processes pass one token on, which counts the hops that are left.
ring(N) ->
    First = circle(100, self()),
    End = N rem 100,
    fun() ->
        First ! N,
        receive {ended, Place} -> End = Place end,
        N + 1
    end.

ring_node(Next, Place, Referee) ->
    receive
        0 -> Referee ! {ended, Place}, ring_node(Next, Place, Referee);
        Hops -> Next ! Hops - 1, ring_node(Next, Place, Referee)
    end.

%% circles: a token goes round in each of so many circles; in a circle of two, that is ping-pong.
circles(Number, Size, N) ->
    Referee = self(),
    Hops = N div Number,
    Firsts = [circle(Size, Referee) || _ <- lists:seq(1, Number)],
    fun() ->
        lists:foreach(fun(First) -> First ! Hops end, Firsts),
        lists:foreach(fun(_) -> receive {ended, _} -> ok end end, Firsts),
        Number * Hops
    end.

circle(Size, Referee) ->
    Nodes = [spawn_link(fun() -> receive {next, Next} -> ring_node(Next, Place, Referee) end end)
             || Place <- lists:seq(0, Size - 1)],
    lists:foreach(fun({Node, Next}) -> Node ! {next, Next} end,
                  lists:zip(Nodes, tl(Nodes) ++ [hd(Nodes)])),
    hd(Nodes).

%% big: each of 120 processes pings one chosen at random, and the next one when that has answered.
big(N) ->
    Referee = self(),
    Size = 120,
    Pings = N div (2 * Size),
    Pingers = [spawn_link(fun() -> receive {all, All} -> pinger(All, Place, Pings, Referee) end end)
               || Place <- lists:seq(0, Size - 1)],
    All = list_to_tuple(Pingers),
    lists:foreach(fun(Pinger) -> Pinger ! {all, All} end, Pingers),
    fun() ->
        lists:foreach(fun(Pinger) -> Pinger ! pong end, Pingers),
        Size = tally(Size, 0),
        2 * Size * (Pings + 1)
    end.

pinger(All, Seed, Left, Referee) ->
    receive
        pong when Left > 0 ->
            Drawn = draw(Seed),
            element(Drawn rem 120 + 1, All) ! {ping, self()},
            pinger(All, Drawn, Left - 1, Referee);
        pong ->
            Referee ! {report, 1},
            pinger(All, Seed, Left, Referee);
        {ping, From} ->
            From ! pong,
            pinger(All, Seed, Left, Referee)
    end.

%% chameneos: a hundred creatures meet in pairs; both of a pair change their colour.
chameneos(N) ->
    Referee = self(),
    Size = 100,
    Meetings = N div 4,
    Mall = spawn_link(fun() -> mall(Meetings, none, Size, 0, Referee) end),
    Creatures = [spawn_link(fun() -> creature(Mall, Place rem 3, 0) end) || Place <- lists:seq(0, Size - 1)],
    Met = 2 * Meetings,
    fun() ->
        lists:foreach(fun(Creature) -> Creature ! start end, Creatures),
        receive {met, Sum} -> Met = Sum end,
        4 * Meetings + 4 * Size
    end.

mall(_, _, 0, Met, Referee) -> Referee ! {met, Met};
mall(0, none, Inside, Met, Referee) ->
    receive
        {visit, _, Creature} -> Creature ! closed, mall(0, none, Inside, Met, Referee);
        {count, Count} -> mall(0, none, Inside - 1, Met + Count, Referee)
    end;
mall(Left, none, Inside, Met, Referee) ->
    receive {visit, _, Creature} -> mall(Left, Creature, Inside, Met, Referee) end;
mall(Left, Waiting, Inside, Met, Referee) ->
    receive {visit, _, _} = Visit -> Waiting ! Visit, mall(Left - 1, none, Inside, Met, Referee) end.

creature(Mall, Colour, Met) ->
    receive
        {visit, Other, Visitor} ->
            Mixed = mix(Colour, Other),
            Visitor ! {colour, Mixed},
            Mall ! {visit, Mixed, self()},
            creature(Mall, Mixed, Met + 1);
        {colour, Mixed} ->
            Mall ! {visit, Mixed, self()},
            creature(Mall, Mixed, Met + 1);
        start ->
            Mall ! {visit, Colour, self()},
            creature(Mall, Colour, Met);
        closed ->
            Mall ! {count, Met}
    end.

mix(Colour, Colour) -> Colour;
mix(One, Other) -> 3 - One - Other.

%% philosophers: an arbiter gives twenty philosophers their forks; who has to wait, waits with the arbiter.
%% A place is free, eating (both its forks are in use), or waiting: a philosopher may eat if no neighbour does.
philosophers(N) ->
    Referee = self(),
    Size = 20,
    Meals = N div (3 * Size),
    Arbiter = spawn_link(fun() ->
        receive {table, Table} ->
            arbiter(Table, list_to_tuple(lists:duplicate(Size, free)), Size * Meals, Referee)
        end
    end),
    Table = [spawn_link(fun() -> philosopher(Arbiter, Place, Meals) end) || Place <- lists:seq(1, Size)],
    Arbiter ! {table, list_to_tuple(Table)},
    fun() ->
        lists:foreach(fun(Philosopher) -> Philosopher ! start end, Table),
        receive all_sated -> Size * (3 * Meals + 1) end
    end.

arbiter(_, _, 0, Referee) -> Referee ! all_sated;
arbiter(Table, Places, Left, Referee) ->
    receive
        {hungry, Place} ->
            arbiter(Table, serve(Place, Table, Places), Left, Referee);
        {sated, Place} ->
            Cleared = setelement(Place, Places, free),
            Once = serve_waiting(left_of(Place), Table, Cleared),
            Twice = serve_waiting(right_of(Place), Table, Once),
            arbiter(Table, Twice, Left - 1, Referee)
    end.

serve(Place, Table, Places) ->
    case element(left_of(Place), Places) =:= eating orelse element(right_of(Place), Places) =:= eating of
        true -> setelement(Place, Places, waiting);
        false -> element(Place, Table) ! eat, setelement(Place, Places, eating)
    end.

serve_waiting(Place, Table, Places) ->
    case element(Place, Places) of
        waiting -> serve(Place, Table, Places);
        _ -> Places
    end.

left_of(1) -> 20;
left_of(Place) -> Place - 1.

right_of(20) -> 1;
right_of(Place) -> Place + 1.

philosopher(Arbiter, Place, Left) ->
    receive
        eat -> Arbiter ! {sated, Place};
        start -> ok
    end,
    case Left of
        0 -> ok;
        _ -> Arbiter ! {hungry, Place}, philosopher(Arbiter, Place, Left - 1)
    end.

%% counting: a producer sends increments to one counter, ten thousand at once, and has it tell the sum each time.
counting(N) ->
    Referee = self(),
    Counter = spawn_link(fun() -> counter(0) end),
    Producer = spawn_link(fun() -> receive start -> Referee ! {sum, produce(Counter, N, 0)} end end),
    fun() ->
        Producer ! start,
        receive {sum, Sum} -> N = Sum end,
        N + 2 * ((N + 9999) div 10000) + 1
    end.

produce(_, 0, Sum) -> Sum;
produce(Counter, Left, _) ->
    Portion = min(Left, 10000),
    increment(Counter, Portion),
    Counter ! {retrieve, self()},
    receive {sum, Sum} -> produce(Counter, Left - Portion, Sum) end.

increment(_, 0) -> ok;
increment(Counter, N) -> Counter ! increment, increment(Counter, N - 1).

counter(Sum) ->
    receive
        increment -> counter(Sum + 1);
        {retrieve, From} -> From ! {sum, Sum}, counter(Sum)
    end.

%% throughput: a master sends ten thousand messages to each of sixty workers, in turn, and again when all are done.
throughput(N) ->
    Referee = self(),
    Size = 60,
    Portion = min(10000, max(N div Size, 1)),
    Times = max(N div (Size * Portion), 1),
    Master = spawn_link(fun() ->
        receive {workers, Workers} -> ok end,
        receive start -> Referee ! {done, master(Workers, Portion, Times, 0)} end
    end),
    Workers = [spawn_link(fun() -> worker(Portion, Portion, Master) end) || _ <- lists:seq(1, Size)],
    Master ! {workers, Workers},
    Done = Size * Portion * Times,
    fun() ->
        Master ! start,
        receive {done, Sum} -> Done = Sum end,
        Size * (Portion + 1) * Times + 1
    end.

master(_, _, 0, Done) -> Done;
master(Workers, Portion, Times, Done) ->
    pour(Workers, Portion),
    master(Workers, Portion, Times - 1, tally(length(Workers), Done)).

pour(_, 0) -> ok;
pour(Workers, Rounds) ->
    lists:foreach(fun(Worker) -> Worker ! work end, Workers),
    pour(Workers, Rounds - 1).

worker(0, Portion, Master) -> Master ! {report, Portion}, worker(Portion, Portion, Master);
worker(Left, Portion, Master) -> receive work -> worker(Left - 1, Portion, Master) end.
