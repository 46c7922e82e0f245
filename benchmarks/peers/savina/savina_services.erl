%% Programs around a process that serves the others.
-module(savina_services).
-export([bank/1, dictionary/1, buffer/1]).
-import(savina, [draw/1, tally/2]).

%% bank: a teller has money moved between a thousand accounts; a thousand transfers are under way at any time.
bank(N) ->
    Referee = self(),
    Size = 1000,
    Transfers = N div 4,
    Teller = spawn_link(fun() -> receive {accounts, Accounts} -> teller(Accounts, Transfers, Referee) end end),
    Accounts = [spawn_link(fun() -> account(Teller, 65536) end) || _ <- lists:seq(1, Size)],
    Teller ! {accounts, list_to_tuple(Accounts)},
    Money = Size * 65536,
    fun() ->
        Teller ! start,
        receive {receipts, Receipts} -> Transfers = Receipts end,
        {4 * Transfers + 1, fun() ->
            lists:foreach(fun(Account) -> Account ! {balance, Referee} end, Accounts),
            Money = tally(Size, 0)
        end}
    end.

teller(Accounts, Transfers, Referee) ->
    receive start -> ok end,
    AtOnce = min(1000, Transfers),
    Referee ! {receipts, transfer(Accounts, Transfers - AtOnce, AtOnce, start(Accounts, AtOnce, 1), 0)}.

start(_, 0, Seed) -> Seed;
start(Accounts, Count, Seed) -> start(Accounts, Count - 1, start_one(Accounts, Seed)).

transfer(_, 0, 0, _, Receipts) -> Receipts;
transfer(Accounts, 0, UnderWay, Seed, Receipts) ->
    receive receipt -> transfer(Accounts, 0, UnderWay - 1, Seed, Receipts + 1) end;
transfer(Accounts, Unstarted, UnderWay, Seed, Receipts) ->
    receive receipt -> ok end,
    transfer(Accounts, Unstarted - 1, UnderWay, start_one(Accounts, Seed), Receipts + 1).

start_one(Accounts, Seed) ->
    Payer = draw(Seed),
    Payee = draw(Payer),
    element(Payer rem 1000 + 1, Accounts) ! {pay, Payer, element(Payee rem 1000 + 1, Accounts)},
    Payee.

account(Teller, Balance) ->
    receive
        {pay, Amount, Payee} ->
            Payee ! {take, Amount, self()},
            account(Teller, Balance - Amount);
        {take, Amount, Payer} ->
            Payer ! receipt,
            account(Teller, Balance + Amount);
        receipt ->
            Teller ! receipt,
            account(Teller, Balance);
        {balance, From} ->
            From ! {report, Balance},
            account(Teller, Balance)
    end.

%% dictionary: twenty workers read and write the entries of one process; one of ten requests writes.
dictionary(N) ->
    Referee = self(),
    Size = 20,
    Requests = N div (2 * Size),
    Dictionary = spawn_link(fun() -> entries(#{}) end),
    Workers = [spawn_link(fun() -> worker(Dictionary, Place, Requests, Referee) end)
               || Place <- lists:seq(0, Size - 1)],
    Written = keys_written(Size, Requests),
    fun() ->
        lists:foreach(fun(Worker) -> Worker ! {value, 0} end, Workers),
        Size = tally(Size, 0),
        {2 * Size * (Requests + 1), fun() ->
            Dictionary ! {size, Referee},
            Written = tally(1, 0)
        end}
    end.

entries(Entries) ->
    receive
        {read, Key, From} ->
            From ! {value, maps:get(Key, Entries, 0)},
            entries(Entries);
        {write, Key, Value, From} ->
            From ! {value, Value},
            entries(Entries#{Key => Value});
        {size, From} ->
            From ! {report, map_size(Entries)},
            entries(Entries)
    end.

worker(_, _, 0, Referee) ->
    receive {value, _} -> Referee ! {report, 1} end;
worker(Dictionary, Seed, Left, Referee) ->
    receive {value, _} -> ok end,
    Drawn = draw(Seed),
    case Drawn rem 10 of
        0 -> Dictionary ! {write, Drawn bsr 4, Drawn, self()};
        _ -> Dictionary ! {read, Drawn bsr 4, self()}
    end,
    worker(Dictionary, Drawn, Left - 1, Referee).

keys_written(Workers, Requests) ->
    map_size(lists:foldl(fun(Seed, Keys) -> keys_written(Requests, Seed, Keys) end, #{}, lists:seq(0, Workers - 1))).

keys_written(0, _, Keys) -> Keys;
keys_written(Left, Seed, Keys) ->
    Drawn = draw(Seed),
    case Drawn rem 10 of
        0 -> keys_written(Left - 1, Drawn, Keys#{Drawn bsr 4 => true});
        _ -> keys_written(Left - 1, Drawn, Keys)
    end.

%% buffer: forty producers and forty consumers, and between them a manager with a buffer of fifty items.
buffer(N) ->
    Referee = self(),
    Size = 40,
    Items = N div (4 * Size),
    Manager = spawn_link(fun() ->
        receive {consumers, Consumers} -> manager(queue:new(), 0, Consumers, queue:new(), Size * Items, Referee) end
    end),
    Consumers = [spawn_link(fun() -> consumer(Manager, 0) end) || _ <- lists:seq(1, Size)],
    Manager ! {consumers, Consumers},
    Producers = [spawn_link(fun() -> producer(Manager, Items) end) || _ <- lists:seq(1, Size)],
    Sum = Size * (Items * (Items + 1) div 2),
    fun() ->
        lists:foreach(fun(Producer) -> Producer ! produce end, Producers),
        receive all_consumed -> ok end,
        {Size * (4 * Items + 1), fun() ->
            lists:foreach(fun(Consumer) -> Consumer ! {sum, Referee} end, Consumers),
            Sum = tally(Size, 0)
        end}
    end.

%% Fifty items, less the one that each of the producers may have on its way.
-define(ROOM, 10).

manager(_, _, _, _, 0, Referee) -> Referee ! all_consumed;
manager(Items, Stored, Free, Held, Left, Referee) ->
    receive
        {item, Item, Producer} when Free =/= [] ->
            hd(Free) ! {item, Item},
            Producer ! produce,
            manager(Items, Stored, tl(Free), Held, Left, Referee);
        {item, Item, Producer} when Stored + 1 < ?ROOM ->
            Producer ! produce,
            manager(queue:in(Item, Items), Stored + 1, Free, Held, Left, Referee);
        {item, Item, Producer} ->
            manager(queue:in(Item, Items), Stored + 1, Free, queue:in(Producer, Held), Left, Referee);
        {free, Consumer} when Stored =:= 0 ->
            manager(Items, Stored, [Consumer | Free], Held, Left - 1, Referee);
        {free, Consumer} ->
            {{value, Item}, Rest} = queue:out(Items),
            Consumer ! {item, Item},
            manager(Rest, Stored - 1, Free, release(Held), Left - 1, Referee)
    end.

release(Held) ->
    case queue:out(Held) of
        {{value, Producer}, Rest} -> Producer ! produce, Rest;
        {empty, _} -> Held
    end.

producer(_, 0) -> receive produce -> ok end;
producer(Manager, Left) ->
    receive produce -> Manager ! {item, Left, self()}, producer(Manager, Left - 1) end.

consumer(Manager, Sum) ->
    receive
        {item, Item} -> Manager ! {free, self()}, consumer(Manager, Sum + Item);
        {sum, From} -> From ! {report, Sum}, consumer(Manager, Sum)
    end.
